//! Pages that nobody may touch lie directly before and directly after every input and output of
//! every kernel, and around the weights and the arena of whole models, on every backend: whoever
//! reads or writes one byte outside ends the process.

#![cfg(unix)]

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::half::{self, Format, Half, half_lines};
use picoformer_core::kernels::int8::{Int8, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_half, pack_int8, pack_linear, panel_lines};
use picoformer_core::{Capacity, Cpu, Line, Model, Plan};
use picoformer_tests::{numbers, small};
use std::ops::{Deref, DerefMut};

/// Which of the two pages a buffer touches.
#[derive(Clone, Copy, Debug)]
enum Side {
    First,
    Last,
}

const SIDES: [Side; 2] = [Side::First, Side::Last];

/// Elements between two pages that may not be touched; they begin where the first of them ends,
/// or end where the last one begins.
struct Fenced<T> {
    /// All pages, the two included.
    pages: *mut libc::c_void,
    bytes: usize,
    data: *mut T,
    len: usize,
}

impl<T: Copy> Fenced<T> {
    fn new(values: &[T], side: Side) -> Self {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let room = size_of_val(values).next_multiple_of(page).max(page);
        let bytes = room + 2 * page;
        let (open, none) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_NONE);
        // SAFETY: new pages, of which those between the first and the last are then opened.
        let pages = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), bytes, none, kind, -1, 0);
            assert!(pages != libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.byte_add(page), room, open), 0);
            pages
        };
        let before = match side {
            Side::First => page,
            Side::Last => page + room - size_of_val(values),
        };
        // SAFETY: within the open pages; pages are more aligned than any element, whose size is a
        // multiple of its alignment.
        let data = unsafe {
            let data = pages.byte_add(before).cast::<T>();
            assert!(data.is_aligned());
            data.copy_from_nonoverlapping(values.as_ptr(), values.len());
            data
        };
        Fenced { pages, bytes, data, len: values.len() }
    }
}

impl<T> Deref for Fenced<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote so many there.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl<T> DerefMut for Fenced<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; only this value refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl<T> Drop for Fenced<T> {
    fn drop(&mut self) {
        // SAFETY: the pages of `new`, to which nothing refers any more.
        unsafe { libc::munmap(self.pages, self.bytes) };
    }
}

fn lines(floats: &[f32]) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; Line::count(floats.len())];
    Line::floats_mut(&mut lines)[..floats.len()].copy_from_slice(floats);
    lines
}

/// Runs `f` on every backend and side; its result must be that of the same call in plain memory.
fn everywhere(x: &[f32], f: impl Fn(Cpu, Option<Side>, &mut [f32])) {
    for cpu in Cpu::all() {
        let mut plain = x.to_vec();
        f(cpu, None, &mut plain);
        for side in SIDES {
            let mut fenced = Fenced::new(x, side);
            f(cpu, Some(side), &mut fenced);
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&fenced), bits(&plain), "{} at the {side:?} page", cpu.name());
        }
    }
}

/// Calls `f` with a copy of `x` that touches a page, or with `x` itself.
fn fenced<T: Copy, R>(side: Option<Side>, x: &[T], f: impl FnOnce(&[T]) -> R) -> R {
    match side {
        Some(side) => f(&Fenced::new(x, side)),
        None => f(x),
    }
}

const LENGTHS: [usize; 9] = [0, 1, 7, 15, 16, 17, 33, 64, 100];

#[test]
fn a_fence_holds() {
    // In a process of its own, for it ends.
    for (side, offset) in [(Side::First, -1isize), (Side::Last, 4)] {
        // SAFETY: the child only touches memory and ends.
        match unsafe { libc::fork() } {
            0 => {
                let fenced = Fenced::new(&[1.0f32; 4], side);
                // SAFETY: not allowed: that is what is tested.
                let outside = unsafe { fenced.data.offset(offset).read_volatile() };
                // SAFETY: ends the child, if the page did not.
                unsafe { libc::_exit(i32::from(outside.to_bits() == 7)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: our child.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFSIGNALED(status), "{side:?}: the page was read, {status}");
            }
        }
    }
}

#[test]
fn kernels_of_rows_and_numbers_touch_nothing_outside() {
    for cols in LENGTHS {
        for rows in [1, 2, 5] {
            let (x, y) = (numbers(1, rows * cols), numbers(2, rows * cols));
            let (gamma, beta) = (lines(&numbers(3, cols)), lines(&numbers(4, cols)));
            everywhere(&x, |cpu, _, x| cpu.softmax(x, cols).unwrap());
            everywhere(&x, |cpu, side, x| fenced(side, &y, |y| cpu.add(x, y).unwrap()));
            for residual in [false, true] {
                everywhere(&x, |cpu, side, x| {
                    fenced(side, &y, |y| {
                        fenced(side, &gamma, |gamma| {
                            let y = residual.then_some(y);
                            cpu.rms_norm(x, cols, y, gamma, 1e-5).unwrap();
                            cpu.layer_norm(x, cols, y, gamma, &[], 1e-5).unwrap();
                            fenced(side, &beta, |beta| {
                                cpu.layer_norm(x, cols, y, gamma, beta, 1e-5).unwrap()
                            });
                        });
                    });
                });
            }
            use Activation::*;
            for activation in [Identity, Relu, GeluErf, GeluTanh, Silu, Tanh, Sigmoid, Exp] {
                everywhere(&x, |cpu, _, x| cpu.activate(activation, x));
            }
        }
    }
}

#[test]
fn products_touch_nothing_outside() {
    for (rows, cols, depth) in [
        (1, 1, 1),
        (1, 17, 5),
        (2, 16, 16),
        (3, 33, 17),
        (5, 100, 64),
        (9, 31, 100),
        (13, 130, 33),
        (17, 48, 7),
    ] {
        let (x, w, bias) = (numbers(1, rows * depth), numbers(2, cols * depth), lines(&numbers(3, cols)));
        let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
        pack_linear(&w, cols, depth, &mut panels);
        let out = vec![0.0; rows * cols];
        everywhere(&out, |cpu, side, out| {
            fenced(side, &x, |x| {
                fenced(side, &panels, |panels| {
                    fenced(side, &bias, |bias| {
                        for (bias, activation) in
                            [(&[][..], Activation::Identity), (bias, Activation::GeluErf)]
                        {
                            cpu.matmul(x, depth, panels, bias, activation, out, cols).unwrap();
                        }
                    });
                });
            });
        });
        for format in [Format::F16, Format::Bf16] {
            let mut halves = vec![Line::ZERO; half_lines(cols, depth)];
            pack_half(&w, cols, depth, format, Line::halves_mut(&mut halves));
            everywhere(&out, |cpu, side, out| {
                let room = [Line::ZERO; half::SCRATCH];
                let mut scratch = Fenced::new(&room, side.unwrap_or(Side::First));
                fenced(side, &x, |x| {
                    fenced(side, &halves, |halves| {
                        fenced(side, &bias, |bias| {
                            let w = Half { halves: Line::halves(halves), format };
                            cpu.matmul_half(x, depth, w, bias, Activation::Relu, &mut scratch, out, cols)
                                .unwrap();
                        });
                    });
                });
            });
        }
        for group in [0, 64] {
            let (codes, scales) = int8_lines(cols, depth, group);
            let (mut codes, mut scales) = (vec![Line::ZERO; codes], vec![Line::ZERO; scales]);
            pack_int8(&w, cols, depth, group, Line::codes_mut(&mut codes), &mut scales);
            everywhere(&out, |cpu, side, out| {
                let room = vec![Line::ZERO; rows * row_lines(depth, group)];
                let mut quantized = Fenced::new(&room, side.unwrap_or(Side::First));
                fenced(side, &x, |x| cpu.quantize(x, depth, group, &mut quantized).unwrap());
                fenced(side, &codes, |codes| {
                    fenced(side, &scales, |scales| {
                        fenced(side, &bias, |bias| {
                            let w = Int8 { codes: Line::codes(codes), scales, group };
                            cpu.matmul_int8(&quantized, depth, w, bias, Activation::Relu, out, cols).unwrap();
                        });
                    });
                });
            });
        }
    }
}

#[test]
fn embeddings_touch_nothing_outside() {
    for (vocab, d_model) in [(1, 1), (7, 15), (33, 16), (50, 17), (21, 100)] {
        let (table, x) = (numbers(1, vocab * d_model), numbers(2, d_model));
        let rows: Vec<Line> = table.chunks(d_model).flat_map(lines).collect();
        let mut panels = vec![Line::ZERO; panel_lines(vocab, d_model)];
        pack_linear(&table, vocab, d_model, &mut panels);
        everywhere(&x, |cpu, side, x| {
            fenced(side, &rows, |rows| {
                let (nearest, _) = cpu.nearest(rows, vocab, d_model, x).unwrap();
                assert!((nearest as usize) < vocab);
                cpu.embed(rows, vocab as u32 - 1, d_model, 2.0, x).unwrap();
            });
            fenced(side, &panels, |panels| {
                cpu.embed_tied(panels, vocab as u32 - 1, d_model, 3.0, x).unwrap();
            });
        });
    }
}

#[test]
fn attention_touches_nothing_outside() {
    for (heads, head_size) in [(1, 1), (2, 15), (1, 16), (3, 17), (2, 64)] {
        for (queries, keys, capacity) in
            [(1, 1usize, 1), (1, 33, 40), (5, 17, 17), (17, 100, 112), (9, 600, 600)]
        {
            let heads = Heads { heads, head_size };
            let (width, first) = (heads.width(), keys.saturating_sub(queries));
            let (query, rows) = (numbers(1, queries * width), numbers(2, keys * width));
            let keep: Vec<bool> = (0..queries * keys).map(|i| i * 7 % 5 != 3).collect();
            for mask in 0..5 {
                everywhere(&vec![0.0; queries * width], |cpu, side, out| {
                    let at = side.unwrap_or(Side::First);
                    let mut packed_keys = Fenced::new(&vec![Line::ZERO; heads.key_lines(capacity)], at);
                    let mut packed_values = Fenced::new(&vec![Line::ZERO; heads.value_lines(capacity)], at);
                    fenced(side, &rows, |rows| {
                        let (k, v) = (&mut *packed_keys, &mut *packed_values);
                        append_keys_values(heads, capacity, 0, rows, rows, width, keys, k, v);
                    });
                    let keep = Fenced::new(&keep[..if mask == 4 { keep.len() } else { keys }], at);
                    let mask = match mask {
                        0 => Mask::None,
                        1 => Mask::Causal,
                        2 => Mask::KeyPadding(&keep),
                        3 => Mask::CausalKeyPadding(&keep),
                        _ => Mask::Arbitrary(&keep),
                    };
                    let shape =
                        AttentionShape { heads, queries, query_stride: width, keys, capacity, first, mask };
                    let mut scores = Fenced::new(&vec![Line::ZERO; score_lines(keys)], at);
                    let mut weights = Fenced::new(&vec![0.0; heads.heads * queries * keys], at);
                    fenced(side, &query, |query| {
                        for weights in [None, Some(&mut *weights)] {
                            let (k, v) = (&packed_keys, &packed_values);
                            cpu.attention(&shape, query, k, v, &mut scores, out, weights).unwrap();
                        }
                    });
                });
            }
        }
    }
}

#[test]
fn whole_models_touch_nothing_outside_of_weights_and_arena() {
    for (name, config) in small::families() {
        let plan = Plan::new(config).unwrap();
        let plan = plan.with_capacity(Capacity { batch: 2, source: 19, target: 9, chunk: 4 }).unwrap();
        let blob = small::weights(&plan, 7);
        for cpu in Cpu::all() {
            for side in SIDES {
                let weights = Fenced::new(&blob, side);
                let mut arena = Fenced::new(&vec![Line([f32::NAN; 16]); plan.arena()], side);
                let mut session = Model::new(plan, &weights).unwrap().session(&mut arena, cpu).unwrap();
                let last = config.source_vocab.max(1) - 1;
                if config.has_encoder() {
                    session.encode(&[&[last; 19], &[0, last]]).unwrap();
                    assert!(session.encoded(0).unwrap().iter().all(|x| x.is_finite()), "{name}");
                }
                if config.has_decoder() {
                    let last = config.target_vocab - 1;
                    assert!(session.decode(&[&[last; 5], &[0]]).unwrap().iter().all(|x| x.is_finite()));
                    session.generate(9, |_, _| {}).unwrap();
                }
                let x = vec![0.1; config.d_model as usize];
                session.nearest(&x).unwrap();
            }
        }
    }
}
