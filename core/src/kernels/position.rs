//! Sinusoidal positions (the paper, section 3.5).

/// Where the sines and cosines of a position go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sinusoid {
    /// The paper's: `pe[2i] = sin`, `pe[2i + 1] = cos`.
    Interleaved,
    /// All `ceil(d / 2)` sines, then the `floor(d / 2)` cosines.
    Halves,
}

/// Adds to each row of `x[rows × d_model]` the vector of its position, from
/// `first_position` on.
///
/// ```text
/// pe(position, 2i)     = sin(position / 10000^(2i / d_model))
/// pe(position, 2i + 1) = cos(position / 10000^(2i / d_model))
/// ```
///
/// Angles, sines and cosines are `f64`, so each is right to the rounding of `f32`
/// thousands of positions on. An odd `d_model` has no last cosine.
pub fn add_sinusoidal(layout: Sinusoid, first_position: usize, x: &mut [f32], d_model: usize) {
    if d_model == 0 {
        return;
    }
    let ratio = libm::pow(10000.0, -2.0 / d_model as f64);
    for (row, x) in x.chunks_exact_mut(d_model).enumerate() {
        let position = first_position.saturating_add(row) as f64;
        let mut frequency = 1.0;
        match layout {
            Sinusoid::Interleaved => {
                for pair in x.chunks_mut(2) {
                    let (sin, cos) = libm::sincos(position * frequency);
                    for (x, pe) in pair.iter_mut().zip([sin, cos]) {
                        *x += pe as f32;
                    }
                    frequency *= ratio;
                }
            }
            Sinusoid::Halves => {
                let Some((sines, cosines)) = x.split_at_mut_checked(d_model.div_ceil(2)) else { return };
                let mut cosines = cosines.iter_mut();
                for x in sines {
                    let (sin, cos) = libm::sincos(position * frequency);
                    *x += sin as f32;
                    if let Some(x) = cosines.next() {
                        *x += cos as f32;
                    }
                    frequency *= ratio;
                }
            }
        }
    }
}
