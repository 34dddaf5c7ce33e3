//! The command line: runs, converts and explains Transformers.

#![deny(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run whole trained Transformers from one file and one arena.
#[derive(Parser)]
#[command(name = "picoformer", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Do what the model is for: text for an encoder–decoder, a vector for a sentence encoder.
    Run {
        /// The model; without it, the embedded one (English spelling to phonemes).
        #[arg(long, value_name = "FILE.pf")]
        model: Option<PathBuf>,
        /// One JSON object a text.
        #[arg(long)]
        json: bool,
        /// Texts; without any, standard input, one text a line.
        text: Vec<String>,
    },
    /// The cosine of two texts' vectors.
    Similarity {
        /// A sentence encoder.
        #[arg(long, value_name = "FILE.pf")]
        model: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// One text.
        a: String,
        /// The other.
        b: String,
    },
    /// Convert a trained model's weights to an image.
    Convert {
        /// g2p (a model.npz, vocab.json beside it), bert (a model.safetensors, config.json and
        /// vocab.txt beside it), ruaccent (an acc_model.pt, vocab.json beside it) or torch (the state
        /// dictionary of an nn.Transformer, config.json beside it).
        family: String,
        /// The weight file (.safetensors, .npz or .pt).
        input: PathBuf,
        /// The image to write.
        out: PathBuf,
        /// How the weights are stored.
        #[arg(long, value_enum, default_value = "f32")]
        weights: commands::convert::Weights,
    },
    /// Compare two images of one model over texts: how far their answers or vectors differ.
    Compare {
        /// The image to compare with, such as the weights in floats.
        a: PathBuf,
        /// The other, such as the weights in eight bits.
        b: PathBuf,
        /// A file of texts, one a line.
        #[arg(long)]
        texts: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe an image: configuration, tensors, sizes, checksum.
    Inspect {
        /// The image; without it, the embedded one.
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the arena a model needs, buffer by buffer, and what it computes a token.
    Plan {
        /// The image; without it, the embedded one.
        file: Option<PathBuf>,
        /// Sequences that run together.
        #[arg(long, default_value_t = 1)]
        batch: usize,
        /// Tokens of the longest source (default: all the model can).
        #[arg(long)]
        source: Option<usize>,
        /// Tokens of the longest target (default: all the model can).
        #[arg(long)]
        target: Option<usize>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show each step of the model on a text (of a word model: its first word), with attention weights.
    Trace {
        /// The model; without it, the embedded one.
        #[arg(long, value_name = "FILE.pf")]
        model: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The text.
        text: String,
    },
    /// Measure the kernels on each backend of this CPU, and a model's passes.
    Bench(commands::bench::Options),
    /// Test each kernel beside a plain loop, on each backend of this CPU.
    Selftest {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are answers; whatever else is wrong is one line.
        Err(asked) if !asked.use_stderr() => asked.exit(),
        Err(wrong) => {
            let text = wrong.to_string();
            let line = text.lines().next().unwrap_or("").trim_start_matches("error: ");
            eprintln!("picoformer: {line} (see picoformer --help)");
            return ExitCode::from(2);
        }
    };
    let done = match cli.command {
        Command::Run { model, json, text } => commands::run::run(model.as_deref(), json, text),
        Command::Similarity { model, json, a, b } => commands::similarity::similarity(&model, json, &a, &b),
        Command::Convert { family, input, out, weights } => {
            commands::convert::convert(&family, &input, &out, weights)
        }
        Command::Compare { a, b, texts, json } => commands::compare::compare(&a, &b, &texts, json),
        Command::Inspect { file, json } => commands::inspect::inspect(file.as_deref(), json),
        Command::Plan { file, batch, source, target, json } => {
            commands::plan::plan(file.as_deref(), batch, source, target, json)
        }
        Command::Bench(options) => commands::bench::bench(&options),
        Command::Selftest { json } => commands::selftest::selftest(json),
        Command::Trace { model, json, text } => commands::trace::trace(model.as_deref(), json, &text),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if commands::closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("picoformer: {error:#}");
            ExitCode::from(2)
        }
    }
}
