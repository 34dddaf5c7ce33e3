//! Memory for weights and arenas, in huge pages where it is large.
//!
//! A pass reads all weights once: with pages of 4 KiB the CPU looks up the address of each
//! page anew, which was measured to take a fifth of the time of products whose weights come
//! from memory.

use memmap2::MmapMut;
use picoformer_core::Line;
use std::ops::{Deref, DerefMut};

/// Lines, zeros at first.
#[derive(Debug)]
pub struct Lines(Memory);

#[derive(Debug)]
enum Memory {
    Heap(Vec<Line>),
    /// Whole pages from the system.
    Pages(MmapMut),
}

/// A huge page, below which there is nothing to win.
const HUGE: usize = 2 << 20;

impl Lines {
    /// So many lines of zeros.
    pub fn zeroed(lines: usize) -> Self {
        let bytes = lines.saturating_mul(size_of::<Line>());
        if bytes >= HUGE
            && let Ok(pages) = MmapMut::map_anon(bytes)
        {
            // Advice: where it is not taken, the pages are small.
            #[cfg(target_os = "linux")]
            let _ = pages.advise(memmap2::Advice::HugePage);
            return Lines(Memory::Pages(pages));
        }
        Lines(Memory::Heap(vec![Line::ZERO; lines]))
    }
}

impl Deref for Lines {
    type Target = [Line];
    fn deref(&self) -> &[Line] {
        match &self.0 {
            Memory::Heap(lines) => lines,
            // Pages are aligned, and were asked for by whole lines.
            Memory::Pages(pages) => Line::from_bytes(pages).unwrap_or(&[]),
        }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        match &mut self.0 {
            Memory::Heap(lines) => lines,
            Memory::Pages(pages) => Line::from_bytes_mut(pages).unwrap_or_default(),
        }
    }
}
