//! Threads for a session: the caller's own and those of a pool.

use anyhow::{Result, ensure};
use picoformer_core::Threads;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

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
    awake: Arc<Awake>,
}

/// Keeps the others awake between the parts of a pass: to wake a thread takes longer than a
/// part of it.
#[derive(Debug)]
struct Awake {
    start: Instant,
    /// Microseconds from the start to the last part.
    last: AtomicU64,
    waiting: AtomicBool,
}

/// Microseconds that threads wait for the next part before they sleep.
const PATIENCE: u64 = 200;

impl Awake {
    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Waits for parts, and runs them, until none has come for a while.
    fn wait(&self) {
        while self.now() < self.last.load(Ordering::Relaxed) + PATIENCE {
            if rayon::yield_now() != Some(rayon::Yield::Executed) {
                spin_loop();
            }
        }
        self.waiting.store(false, Ordering::Relaxed);
    }
}

impl Pool {
    /// So many threads, at least one: the caller's and others that wait for work.
    pub fn new(count: usize) -> Result<Self> {
        ensure!(count > 0, "0 threads: at least 1 is needed");
        let others = match count {
            1 => None,
            _ => Some(ThreadPoolBuilder::new().num_threads(count - 1).build()?),
        };
        let (last, waiting) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Pool { others, count, awake: Arc::new(Awake { start: Instant::now(), last, waiting }) })
    }
}

/// Says that a half is done, even where it panics.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Threads for Pool {
    fn count(&self) -> usize {
        self.count
    }

    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        let Some(others) = &self.others else { return ().join(a, b) };
        self.awake.last.store(self.awake.now(), Ordering::Relaxed);
        if !self.awake.waiting.swap(true, Ordering::Relaxed) {
            let awake = Arc::clone(&self.awake);
            others.spawn_broadcast(move |_| awake.wait());
        }
        let done = AtomicBool::new(false);
        others.in_place_scope(|scope| {
            scope.spawn(|_| {
                let _done = Done(&done);
                a();
            });
            b();
            // Rather than sleep: the other half is as long.
            for turn in 0u32.. {
                if done.load(Ordering::Acquire) {
                    break;
                }
                if turn < 100_000 { spin_loop() } else { std::thread::yield_now() }
            }
        });
    }
}
