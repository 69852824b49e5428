//! Calls of functions that only the user knows.

/// A call of something only the user knows.
#[derive(Clone, Debug)]
pub struct CustomOp {
    /// What is called.
    pub info: CustomCallInfo,
}

/// What a registered function is told about a call.
#[derive(Clone, Debug)]
pub struct CustomCallInfo {
    /// `custom_call_target`.
    pub target: String,
    /// Name of the instruction.
    pub instruction: String,
    /// `op_name` of the metadata, where there is one.
    pub op_name: Option<String>,
    /// `backend_config`, unescaped.
    pub backend_config: Vec<u8>,
}
