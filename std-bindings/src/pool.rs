//! Threads for a session: the caller's own and those of a pool.

use anyhow::{Result, ensure};
use picoformer_core::Threads;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// A session's threads; `&Pool` goes to [`Session::on`](picoformer_core::Session::on).
///
/// ```
/// use picoformer::{ModelFile, Pool, arena};
/// use picoformer::core::Cpu;
/// let (file, pool) = (ModelFile::embedded(), Pool::new(2)?);
/// let image = file.image()?;
/// let model = image.model().with_threads(2)?;
/// let mut arena = arena(model.plan().arena());
/// let mut session = model.session(&mut arena, Cpu::detect())?.on(&pool);
/// session.encode(&[&[3, 4, 5]])?;
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    /// All but the caller's.
    others: Option<ThreadPool>,
    count: usize,
}

impl Pool {
    /// So many threads, at least one: the caller's and others that wait for work.
    pub fn new(count: usize) -> Result<Self> {
        ensure!(count > 0, "0 threads: at least 1 is needed");
        let others = match count {
            1 => None,
            _ => Some(ThreadPoolBuilder::new().num_threads(count - 1).build()?),
        };
        Ok(Pool { others, count })
    }
}

impl Threads for Pool {
    fn count(&self) -> usize {
        self.count
    }

    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        match &self.others {
            Some(others) => others.in_place_scope(|scope| {
                scope.spawn(|_| a());
                b();
            }),
            None => ().join(a, b),
        }
    }
}
