//! Python binding of hlorun.
