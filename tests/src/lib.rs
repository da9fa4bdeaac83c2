//! Black-box tests: a real daemon under real initiators.
