//! Benches of every kernel and of whole models; see `benches/`.
