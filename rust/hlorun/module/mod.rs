//! The module: what HLO text means, in arenas with typed ids.
//!
//! Comes in: instructions from the parser or from passes. Goes out: read-only handles
//! ([`InstructionRef`]). Promise: ids stay valid for the life of the module, and no operation
//! recurses on input-controlled depth.

pub mod accuracy;
pub mod attributes;
pub mod backend_config;
pub mod compact;
pub mod computation;
pub mod config;
pub(crate) mod copy;
pub mod edit;
pub mod effects;
pub mod escape;
pub mod hlo_module;
pub mod ids;
pub mod instruction;
pub mod location;
pub mod mesh_groups;
pub mod metadata;
pub mod names;
pub mod opcode;
pub mod part;
pub mod post_order;
pub mod scan;
pub mod sharding;
pub mod source;
pub mod stack_frames;
pub mod words;

pub use attributes::{AttrKey, AttrValue, Attribute};
pub use backend_config::BackendConfig;
pub use computation::HloComputation;
pub use config::HloModuleConfig;
pub use effects::{Effect, Effects};
pub use hlo_module::{HloModule, ModuleWarning, NewInstruction};
pub use ids::{ComputationId, Id, IdMap, InstructionId, LiteralId, PoolRange};
pub use instruction::{CalledComputations, HloInstruction, InstructionRef};
pub use metadata::OpMetadata;
pub use names::{ModuleText, TextRef};
pub use opcode::{HloOpcode, OpClass};
pub use sharding::{HloSharding, Sharding};
pub use source::Source;
pub use stack_frames::StackFrame;
