//! From programs to executables: StableHLO becomes HLO in jaxlib, HLO a plan here.
//!
//! In: a program and `CompileOptionsProto`, or what `PJRT_Executable_Serialize` gave. Out: a
//! [`Program`]. Promise: the interpreter lock is taken here, and free while hlorun plans.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::abi::{Call, In, Ref, args};
use super::client::Client;
use super::error::{Failure, Outcome};
use super::executable::{Made, Program};
use super::handles::{Handle, give};
use super::options::placement;
use super::topology::Topology;
use crate::executable::PyExecutable;

/// The Python module that knows jaxlib.
const PYTHON: &str = "hlorun._jax_plugin.compiling";
/// How a serialized executable begins; hlorun's version follows.
const MAGIC: &[u8] = b"hlorun executable ";

/// `PJRT_Program`.
#[repr(C)]
pub struct ProgramText {
    struct_size: usize,
    extension_start: *const (),
    pub code: *mut u8,
    pub code_size: usize,
    pub format: In<u8>,
}

impl ProgramText {
    /// Says how large `bytes` are, or writes them where the caller has made room.
    pub fn show(&mut self, format: &'static str, bytes: &[u8]) -> Outcome<()> {
        // SAFETY: the text lives as long as the process.
        self.format = unsafe { In::new(format.as_ptr(), format.len()) };
        if self.code.is_null() {
            self.code_size = bytes.len();
            return Ok(());
        }
        if self.code_size < bytes.len() {
            let message = format!("room for {} bytes of {}", self.code_size, bytes.len());
            return Err(Failure::argument(message));
        }
        // SAFETY: C promises room for `code_size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.code, bytes.len()) };
        Ok(())
    }
}

args! {
    Compile "PJRT_Client_Compile" {
        client: Ref<Client>,
        program: Ref<ProgramText>,
        options: In<u8>,
        executable: Handle<Program>,
    }
    CompileFor "PJRT_Compile" {
        topology: Ref<Topology>,
        program: Ref<ProgramText>,
        options: In<u8>,
        client: Ref<Client>,
        executable: Handle<Program>,
    }
    Load "PJRT_Executable_DeserializeAndLoad" {
        client: Ref<Client>,
        bytes: In<u8>,
        executable: Handle<Program>,
        options: In<u8>,
    }
}

impl Call for Compile {
    fn call(&mut self) -> Outcome<()> {
        let client = self.client.get("client")?;
        let program = self.program.get("program")?;
        let options = self.options.get("the compile options")?;
        self.executable = give(compile(client, program, options)?);
        Ok(())
    }
}

impl Call for CompileFor {
    fn call(&mut self) -> Outcome<()> {
        let client = self.topology.get("topology")?;
        let program = self.program.get("program")?;
        let options = self.options.get("the compile options")?;
        self.executable = give(compile(client, program, options)?);
        Ok(())
    }
}

/// Compiles for devices of `client`.
fn compile(client: &'static Client, program: &ProgramText, options: &[u8]) -> Outcome<Program> {
    let format = program.format.text("the program's format")?;
    // SAFETY: C promises so many bytes, which nobody changes during the call.
    let code = unsafe { In::new(program.code, program.code_size) };
    let code = code.get("the program")?;
    planned(client, format, code, options)
}

/// What Python gives: the executable, and what it keeps alive.
type Planned = (Py<PyExecutable>, Py<PyAny>);

/// Asks Python for the executable of `code`, and makes it a program.
fn planned(client: &'static Client, format: &str, code: &[u8], options: &[u8]) -> Outcome<Program> {
    let placement = placement(client, options)?;
    let (executable, keep) = Python::attach(|py| {
        let plan = || -> PyResult<Planned> {
            py.import(PYTHON)?
                .getattr("compile_program")?
                .call1((
                    format,
                    PyBytes::new(py, code),
                    placement.replicas,
                    placement.partitions,
                    PyBytes::new(py, options),
                ))?
                .extract()
        };
        plan().map_err(|error| Failure::of_exception(py, &error))
    })?;
    let made = Made {
        executable,
        keep,
        options: options.to_vec(),
    };
    Program::new(made, placement)
}

/// The bytes of an executable: the magic words, the version, the options' size, the options, the module.
pub fn serialize(program: &Program) -> Outcome<Vec<u8>> {
    if program.has_functions() {
        return Err(Failure::unsupported(
            "an executable that calls Python functions of this process cannot be saved",
        ));
    }
    let module = program.proto()?;
    let options = &program.options;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&(options.len() as u64).to_le_bytes());
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(module);
    Ok(bytes)
}

/// The options and the module of a serialized executable.
fn parts(bytes: &[u8]) -> Outcome<(&[u8], &[u8])> {
    let version = env!("CARGO_PKG_VERSION");
    let wrong = || {
        Failure::argument(format!(
            "the bytes are no executable of hlorun {version}: compile it again"
        ))
    };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(wrong)?;
    let rest = rest.strip_prefix(version.as_bytes()).ok_or_else(wrong)?;
    let rest = rest.strip_prefix(&[0]).ok_or_else(wrong)?;
    let (size, rest) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
    let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| wrong())?;
    rest.split_at_checked(size).ok_or_else(wrong)
}

impl Call for Load {
    fn call(&mut self) -> Outcome<()> {
        let client = self.client.get("client")?;
        let bytes = self.bytes.get("the executable")?;
        let (options, module) = parts(bytes)?;
        let overridden = self.options.get("the compile options")?;
        let options = if overridden.is_empty() {
            options
        } else {
            overridden
        };
        self.executable = give(planned(client, "hlo", module, options)?);
        Ok(())
    }
}
