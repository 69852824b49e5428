//! How elements are computed: the kernel of each opcode, and programs of several.

pub mod choice;
pub mod elementwise;
pub mod epilogue;
pub mod program;
pub mod scalar;
pub mod vector_bytecode;
