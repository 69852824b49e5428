//! The extension that shows layouts: every array is row-major.

use super::abi::{Call, Extension, In, OwnedBytes, Ref, args, entry};
use super::buffer::Buffer;
use super::client::Client;
use super::error::Outcome;
use super::executable::Program;
use super::handles::{Handle, give, objects};
use super::topology::Topology;

/// The extension's number.
const KIND: i32 = 4;

/// A `PJRT_Layouts_MemoryLayout`: the order of dimensions as HLO text writes it, `{1,0}`.
pub struct Layout(String);

objects!(Layout);

impl Layout {
    /// Row-major order.
    pub fn of_rank(rank: usize) -> Layout {
        let order: Vec<String> = (0..rank).rev().map(|dim| dim.to_string()).collect();
        Layout(format!("{{{}}}", order.join(",")))
    }
}

args! {
    Destroy "PJRT_Layouts_MemoryLayout_Destroy" { layout: Handle<Layout> }
    Serialize "PJRT_Layouts_MemoryLayout_Serialize" { layout: Handle<Layout>, bytes: OwnedBytes }
    OfClient "PJRT_Layouts_PJRT_Client_GetDefaultLayout" {
        client: Ref<Client>,
        element_type: i32,
        dims: In<i64>,
        layout: Handle<Layout>,
    }
    OfBuffer "PJRT_Layouts_PJRT_Buffer_MemoryLayout" {
        buffer: Handle<Buffer>,
        layout: Handle<Layout>,
    }
    OfTopology "PJRT_Layouts_PJRT_Topology_GetDefaultLayout" {
        topology: Ref<Topology>,
        element_type: i32,
        dims: In<i64>,
        layout: Handle<Layout>,
    }
    OfOutputs "PJRT_Layouts_PJRT_Executable_GetOutputLayouts" {
        executable: Handle<Program>,
        count: usize,
        layouts: *const Handle<Layout>,
    }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        drop(self.layout.destroy());
        Ok(())
    }
}

impl Call for Serialize {
    fn call(&mut self) -> Outcome<()> {
        let layout = self.layout.get("layout")?;
        self.bytes.set(layout.0.clone().into_bytes());
        Ok(())
    }
}

impl Call for OfClient {
    fn call(&mut self) -> Outcome<()> {
        self.client.get("client")?;
        self.layout = give(Layout::of_rank(self.dims.get("the sizes")?.len()));
        Ok(())
    }
}

impl Call for OfBuffer {
    fn call(&mut self) -> Outcome<()> {
        let rank = self.buffer.get("buffer")?.dims.len();
        self.layout = give(Layout::of_rank(rank));
        Ok(())
    }
}

impl Call for OfTopology {
    fn call(&mut self) -> Outcome<()> {
        self.topology.get("topology")?;
        self.layout = give(Layout::of_rank(self.dims.get("the sizes")?.len()));
        Ok(())
    }
}

impl Call for OfOutputs {
    fn call(&mut self) -> Outcome<()> {
        let program = self.executable.get("executable")?;
        let layouts = program.layouts();
        (self.count, self.layouts) = (layouts.len(), layouts.as_ptr());
        Ok(())
    }
}

/// `PJRT_Layouts_Extension`.
#[repr(C)]
pub struct Table {
    base: Extension,
    functions: [*const (); 6],
}

// SAFETY: addresses of functions.
unsafe impl Sync for Table {}

/// The function whose arguments are `A`.
const fn f<A: Call>() -> *const () {
    entry::<A> as *const ()
}

/// The extension's table.
pub static EXTENSION: Table = Table {
    base: Extension {
        struct_size: size_of::<Table>(),
        kind: KIND,
        next: std::ptr::null(),
    },
    functions: [
        f::<Destroy>(),
        f::<Serialize>(),
        f::<OfClient>(),
        f::<OfBuffer>(),
        f::<OfTopology>(),
        f::<OfOutputs>(),
    ],
};
