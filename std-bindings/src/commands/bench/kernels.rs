//! Each kernel on each backend of this CPU, beside the peak of that backend's multiply-adds.

use picoformer::core::Cpu;
use picoformer::core::kernels::activation::Activation;
use picoformer::core::kernels::attention::{Heads, Mask};
use picoformer::measure::cases::{Attention, Matmul, MatmulInt8};
use picoformer::measure::peak::{peak, peak_int8};
use picoformer::measure::{Buffer, median, rate};
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::{Result, Write};

/// Interleaved: a slow moment of the machine falls on all kernels alike.
const ROUNDS: usize = 7;

/// One kernel on one backend.
pub(super) struct Row {
    kernel: String,
    cpu: Cpu,
    /// GFLOP/s, or 1e9 numbers a second for kernels that are no products.
    rate: f64,
    /// Products have a peak.
    kind: Kind,
    /// GFLOP/s (or G operations/s, of bytes) of multiply-adds in registers, in the same rounds.
    peak: Option<f64>,
}

impl Row {
    pub(super) fn json(&self) -> Value {
        let unit = self.kind.unit();
        json!({
            "kernel": self.kernel, "cpu": self.cpu.name(), "rate": self.rate, "unit": unit,
            "peak_gflops": self.peak, "percent_of_peak": self.share(),
        })
    }

    fn share(&self) -> Option<f64> {
        self.peak.filter(|_| self.kind != Kind::Numbers).map(|peak| 100.0 * self.rate / peak)
    }
}

/// What a kernel's work is counted in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Floats,
    Bytes,
    Numbers,
}

impl Kind {
    fn unit(self) -> &'static str {
        match self {
            Kind::Floats => "GFLOP/s",
            Kind::Bytes => "G operations/s",
            Kind::Numbers => "G elements/s",
        }
    }
}

/// A kernel ready to run: its name, what its work is, and one measurement.
struct Case {
    name: String,
    kind: Kind,
    rate: Box<dyn FnMut(Cpu) -> f64>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (rows, cols, depth) in
        [(128, 384, 384), (128, 1536, 384), (32, 384, 1536), (8, 384, 384), (1, 384, 384)]
    {
        let mut case = Matmul::new(rows, cols, depth);
        cases.push(Case {
            name: format!("matmul {rows} × {cols} × {depth}"),
            kind: Kind::Floats,
            rate: Box::new(move |cpu| case.rate(cpu)),
        });
    }
    for (rows, cols, depth) in
        [(128, 384, 384), (32, 384, 1536), (256, 2048, 512), (8, 384, 384), (1, 384, 384), (1, 1536, 384)]
    {
        for (group, by) in [(0, ""), (64, " by 64")] {
            let mut case = MatmulInt8::new(rows, cols, depth, group);
            cases.push(Case {
                name: format!("matmul int8{by}, quantized: {rows} × {cols} × {depth}"),
                kind: Kind::Bytes,
                rate: Box::new(move |cpu| {
                    case.quantize(cpu);
                    rate(case.operations(), 4, || case.run(cpu))
                }),
            });
            let mut case = MatmulInt8::new(rows, cols, depth, group);
            cases.push(Case {
                name: format!("quantize and matmul int8{by}: {rows} × {cols} × {depth}"),
                kind: Kind::Bytes,
                rate: Box::new(move |cpu| {
                    rate(case.operations(), 4, || {
                        case.quantize(cpu);
                        case.run(cpu)
                    })
                }),
            });
        }
    }
    for (queries, keys) in [(128, 128), (1, 128)] {
        let heads = Heads { heads: 12, head_size: 32 };
        let mut case = Attention::new(heads, queries, keys, Mask::None);
        cases.push(Case {
            name: format!("attention 12 heads, {queries} × {keys}"),
            kind: Kind::Floats,
            rate: Box::new(move |cpu| rate(case.flops(), 4, || case.run(cpu))),
        });
    }
    let mut numbers = |name: &str, rows: usize, cols: usize, run: fn(Cpu, &mut [f32], usize)| {
        // Fixed points of GELU; the others make the same of any numbers again and again.
        let mut x = Buffer::random(1, rows * cols);
        x.iter_mut().for_each(|x| *x += 8.0);
        cases.push(Case {
            name: format!("{name} {rows} × {cols}"),
            kind: Kind::Numbers,
            rate: Box::new(move |cpu| rate(x.len() as u64, 4, || run(cpu, black_box(&mut x), cols))),
        });
    };
    numbers("softmax", 128, 128, |cpu, x, cols| cpu.softmax(x, cols).expect("whole rows"));
    numbers("layer norm", 128, 384, |cpu, x, cols| {
        let (gamma, beta) = ([picoformer::core::Line([1.0; 16]); 24], [picoformer::core::Line::ZERO; 24]);
        cpu.layer_norm(x, cols, None, &gamma, &beta, 1e-5).expect("24 lines are 384 floats");
    });
    numbers("gelu", 128, 384, |cpu, x, _| cpu.activate(Activation::GeluErf, x));
    cases
}

/// Medians of interleaved rounds, the rows of a kernel together.
pub(super) fn measure() -> Vec<Row> {
    let (cpus, mut cases): (Vec<Cpu>, _) = (Cpu::all().collect(), cases());
    let (mut peaks, mut of_bytes) = (vec![Vec::new(); cpus.len()], vec![Vec::new(); cpus.len()]);
    let mut rates = vec![Vec::new(); cpus.len() * cases.len()];
    for _ in 0..ROUNDS {
        for (i, &cpu) in cpus.iter().enumerate() {
            peaks[i].extend(peak(cpu));
            of_bytes[i].extend(peak_int8(cpu));
            for (j, case) in cases.iter_mut().enumerate() {
                rates[j * cpus.len() + i].push((case.rate)(cpu));
            }
        }
    }
    let row = |(at, rates): (usize, Vec<f64>)| {
        let (case, i) = (&cases[at / cpus.len()], at % cpus.len());
        let peaks = if case.kind == Kind::Bytes { &of_bytes[i] } else { &peaks[i] };
        let peak = (!peaks.is_empty()).then(|| median(peaks.clone()));
        Row { kernel: case.name.clone(), cpu: cpus[i], rate: median(rates), kind: case.kind, peak }
    };
    rates.into_iter().enumerate().map(row).collect()
}

pub(super) fn table(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    const WIDTH: usize = 20;
    writeln!(out, "multiply-adds in registers, the peak:")?;
    let fastest = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let highest = fastest(&|row| row.peak.unwrap_or(0.0));
    for row in rows.iter().take_while(|row| row.kernel == rows[0].kernel) {
        match row.peak {
            Some(peak) => writeln!(
                out,
                "  {:11} {peak:8.1} GFLOP/s        {}",
                row.cpu.name(),
                super::bar(peak, highest, WIDTH)
            )?,
            None => writeln!(out, "  {:11} not known", row.cpu.name())?,
        }
    }
    let mut kernel = "";
    for row in rows {
        if row.kernel != kernel {
            kernel = &row.kernel;
            writeln!(out, "{kernel}")?;
        }
        let (cpu, rate, unit) = (row.cpu.name(), row.rate, row.kind.unit());
        if let Some(share) = row.share() {
            let bar = super::bar(share, 100.0, WIDTH);
            writeln!(out, "  {cpu:11} {rate:8.1} {unit:14} {bar} {share:3.0} % of the peak")?;
        } else {
            let best = fastest(&|other| if other.kernel == row.kernel { other.rate } else { 0.0 });
            writeln!(out, "  {cpu:11} {rate:8.2} {unit:14} {}", super::bar(rate, best, WIDTH).trim_end())?;
        }
    }
    writeln!(out, "medians of {ROUNDS} interleaved rounds, one thread\n")
}
