//! The rows: every kernel at the shapes that models have, beside the crates that have it too.

mod attention;
mod matmul;
mod numbers;
mod peers;

use picoformer_benches::row::Plan;

/// Every row, by kernel.
pub(crate) fn all() -> Vec<Plan> {
    let mut plans = matmul::rows();
    plans.extend(numbers::rows());
    plans.extend(attention::rows());
    plans
}

/// One thread for the peers too. Before anything of theirs runs.
pub(crate) fn one_thread() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("nothing has started threads");
}
