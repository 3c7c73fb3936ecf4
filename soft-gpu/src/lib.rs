//! A software AMD GPU behind the KFD boundary.
