//! The topology: the devices' descriptions, with or without a client of the caller's.
//!
//! A `PJRT_TopologyDescription` is a client: clients live for ever, and one is cheap.

use super::abi::{Call, In, Out, Ref, args};
use super::client::{Client, PLATFORM, VERSION};
use super::device::Description;
use super::error::Outcome;
use super::named::NamedValue;

/// A `PJRT_TopologyDescription`.
pub type Topology = Client;

args! {
    Create "PJRT_TopologyDescription_Create" {
        name: In<u8>,
        options: In<NamedValue>,
        topology: *const Topology,
    }
    Destroy "PJRT_TopologyDescription_Destroy" { topology: Ref<Topology> }
    PlatformVersion "PJRT_TopologyDescription_PlatformVersion" {
        topology: Ref<Topology>,
        version: Out<u8>,
    }
    PlatformName "PJRT_TopologyDescription_PlatformName" {
        topology: Ref<Topology>,
        name: Out<u8>,
    }
    Descriptions "PJRT_TopologyDescription_GetDeviceDescriptions" {
        topology: Ref<Topology>,
        descriptions: Out<*const Description>,
    }
    Attributes "PJRT_TopologyDescription_Attributes" {
        topology: Ref<Topology>,
        attributes: Out<NamedValue>,
    }
}

impl Call for Create {
    fn call(&mut self) -> Outcome<()> {
        self.topology = Client::of(1)?;
        Ok(())
    }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        Ok(())
    }
}

impl Call for PlatformVersion {
    fn call(&mut self) -> Outcome<()> {
        self.topology.get("topology")?;
        self.version.text(VERSION);
        Ok(())
    }
}

impl Call for PlatformName {
    fn call(&mut self) -> Outcome<()> {
        self.topology.get("topology")?;
        self.name.text(PLATFORM);
        Ok(())
    }
}

impl Call for Descriptions {
    fn call(&mut self) -> Outcome<()> {
        let topology = self.topology.get("topology")?;
        self.descriptions
            .set(topology.description_handles.pointers());
        Ok(())
    }
}

impl Call for Attributes {
    fn call(&mut self) -> Outcome<()> {
        self.topology.get("topology")?;
        self.attributes.set(&[]);
        Ok(())
    }
}
