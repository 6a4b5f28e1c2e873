//! libtutti.so.1: every exported C function.
