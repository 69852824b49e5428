//! Reads XLA HLO text dumps and runs them on the CPU.
