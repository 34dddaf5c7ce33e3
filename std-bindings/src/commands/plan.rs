//! `picoformer plan`: the memory a model needs and what it computes.

use anyhow::Result;
use picoformer::core::{Capacity, Line};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn plan(
    file: Option<&Path>,
    batch: usize,
    source: Option<usize>,
    target: Option<usize>,
    as_json: bool,
) -> Result<()> {
    let file = super::open(file)?;
    let image = file.image()?;
    let (source, target) = (source.unwrap_or(usize::MAX), target.unwrap_or(usize::MAX));
    let model = image.model().with_capacity(Capacity { batch, source, target, chunk: 1 })?;
    let (plan, mut out, line) = (model.plan(), stdout().lock(), size_of::<Line>());
    let (capacity, map, (encode, decode)) = (plan.capacity(), plan.map(), plan.multiply_adds());
    if as_json {
        let buffers: Vec<_> = map
            .iter()
            .map(|r| json!({ "name": r.name, "group": r.group, "offset": r.offset * line, "bytes": r.lines * line }))
            .collect();
        let value = json!({
            "batch": capacity.batch, "source": capacity.source, "target": capacity.target,
            "arena_bytes": plan.arena() * line, "weights_bytes": plan.weights() * line,
            "multiply_adds_per_source_token": encode, "multiply_adds_per_target_token": decode,
            "buffers": buffers,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} × (source {}, target {})",
        image.name(),
        capacity.batch,
        capacity.source,
        capacity.target
    )?;
    writeln!(out, "arena    {:>12} B  ({} lines of {line} B)", plan.arena() * line, plan.arena())?;
    writeln!(out, "weights  {:>12} B  used in place", plan.weights() * line)?;
    writeln!(out, "multiply-adds: {encode} a source token, {decode} a target token, attention aside")?;
    writeln!(out, "\n{:>12} {:>12}  {:14} buffer", "offset", "bytes", "group")?;
    let mut group = "session";
    for region in map.iter().filter(|region| region.lines > 0) {
        if region.group != group && group == "session" {
            writeln!(out, "{:27} the groups below share one span, in turns:", "")?;
        }
        group = region.group;
        writeln!(
            out,
            "{:>12} {:>12}  {group:14} {}",
            region.offset * line,
            region.lines * line,
            region.name
        )?;
    }
    Ok(())
}
