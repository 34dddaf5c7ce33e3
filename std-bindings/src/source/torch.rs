//! The index of a torch file: a zip archive whose `data.pkl` says which part of which raw storage
//! every tensor of a state dictionary is.
//!
//! The pickle runs on a machine that knows only what a dictionary of float tensors needs and calls
//! nothing. Its values refer to each other by number: no nesting, however deep, is ever recursed into.

use super::npz::Archive;
use super::{Dtype, Entry, Index, Reader, volume};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::rc::Rc;

/// More dimensions than any weight has.
const MAX_DIMENSIONS: usize = 8;

pub(super) fn index(mut archive: Archive<'_>) -> Result<Index> {
    let root = archive.names().find_map(|name| name.strip_suffix("data.pkl")).map(str::to_owned);
    let root = root.context("the archive has no data.pkl; save it with torch.save")?;
    if let Ok(order) = archive.member(&format!("{root}byteorder")) {
        ensure!(order.within(archive.file) != Some(b"big"), "the floats are big-endian, not little-endian");
    }
    let pickle = archive.member(&format!("{root}data.pkl"))?;
    // Each of its bytes may become a value, so a few that unpack to many would fill the memory.
    ensure!(pickle.len() <= archive.file.len(), "data.pkl unpacks to more than the whole file");
    let tensors = Machine::run(pickle.within(archive.file).context("data.pkl is cut short")?)?;
    let named = |(name, view): (&str, View)| {
        let entry = view.entry(&mut archive, &root).with_context(|| format!("`{name}`"))?;
        Ok((name.to_owned(), entry))
    };
    tensors.into_iter().map(named).collect()
}

/// A contiguous part of a storage, in elements.
#[derive(Clone)]
struct View<'a> {
    key: &'a str,
    count: usize,
    offset: usize,
    shape: Vec<usize>,
}

impl View<'_> {
    fn entry(self, archive: &mut Archive<'_>, root: &str) -> Result<Entry> {
        let View { key, count, offset, shape } = self;
        let storage = archive.member(&format!("{root}data/{key}"))?;
        ensure!(count.checked_mul(4) == Some(storage.len()), "storage {key} does not hold {count} floats");
        let scaled = offset.checked_mul(4).zip(volume(&shape).and_then(|n| n.checked_mul(4)));
        let part = scaled.and_then(|(start, length)| storage.part(start, length)).with_context(|| {
            format!("shape {shape:?} at {offset} does not fit storage {key} of {count} floats")
        })?;
        Entry::new(shape, Dtype::F32, part)
    }
}

/// A value of the machine; compound ones are numbers of what the machine keeps aside.
#[derive(Clone, Copy)]
enum Value<'a> {
    Mark,
    /// Something no float tensor is made of.
    Plain,
    Int(i64),
    Str(&'a str),
    Tuple(usize),
    Dict(usize),
    Tensor(usize),
    /// A key and a number of elements.
    Storage(&'a str, usize),
    OrderedDict,
    RebuildTensor,
    FloatStorage,
}

/// The pickle machine: what is left to read, the stack, the memo and the compound values.
#[derive(Default)]
struct Machine<'a> {
    rest: Reader<'a>,
    stack: Vec<Value<'a>>,
    memo: HashMap<u32, Value<'a>>,
    tuples: Vec<Rc<[Value<'a>]>>,
    dicts: Vec<Vec<[Value<'a>; 2]>>,
    tensors: Vec<View<'a>>,
}

impl<'a> Machine<'a> {
    /// Runs a pickle to its end and returns the tensors of the dictionary that it makes.
    fn run(pickle: &'a [u8]) -> Result<Vec<(&'a str, View<'a>)>> {
        let mut machine = Machine { rest: Reader(pickle), ..Machine::default() };
        loop {
            let place = format!("data.pkl, byte {}", pickle.len() - machine.rest.0.len());
            match machine.rest.take() {
                Ok([b'.']) => return machine.finish(),
                op => op.and_then(|[op]| machine.step(op)).context(place)?,
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<(&'a str, View<'a>)>> {
        let Value::Dict(dict) = self.pop()? else { bail!("not a dictionary; save model.state_dict()") };
        let tensor = |pair: &[Value<'a>; 2]| match *pair {
            [Value::Str(name), Value::Tensor(n)] => Some((name, self.tensors[n].clone())),
            _ => None,
        };
        let tensors: Vec<_> = self.dicts[dict].iter().filter_map(tensor).collect();
        ensure!(!tensors.is_empty(), "the dictionary has no tensors; save model.state_dict()");
        Ok(tensors)
    }

    fn step(&mut self, op: u8) -> Result<()> {
        let value = match op {
            0x80 => return self.rest.take::<1>().map(drop), // the protocol
            b'q' | b'r' => {
                let top = *self.stack.last().context("the stack is empty")?;
                self.memo.insert(self.rest.number(op == b'r')?, top);
                return Ok(());
            }
            b'h' | b'j' => {
                let slot = self.rest.number(op == b'j')?;
                *self.memo.get(&slot).with_context(|| format!("nothing was remembered as {slot}"))?
            }
            b'c' => self.global()?,
            b'(' => Value::Mark,
            b')' => self.tuple(Vec::new()),
            0x85..=0x87 => self.pop_many((op - 0x84).into()).map(|items| self.tuple(items))?,
            b't' => self.pop_to_mark().map(|items| self.tuple(items))?,
            b'X' => Value::Str(self.rest.number(true).and_then(|n| self.rest.text(n as usize))?),
            b'J' => Value::Int(i32::from_le_bytes(self.rest.take()?).into()),
            b'K' => Value::Int(self.rest.number(false)?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.rest.take()?).into()),
            0x8a => self.long()?,
            b'G' => self.rest.take::<8>().map(|_| Value::Plain)?,
            b'N' | b']' | 0x88 | 0x89 => Value::Plain,
            b'}' => self.dict(),
            b'a' => return self.pop_many(1).map(drop), // what is in a list, no tensor needs
            b'e' => return self.pop_to_mark().map(drop),
            b's' => return self.pop_many(2).and_then(|pair| self.set(&pair)),
            b'u' => return self.pop_to_mark().and_then(|items| self.set(&items)),
            b'b' => return self.pop().and_then(|_| self.set(&[])), // a dictionary's attributes
            b'Q' => self.storage()?,
            b'R' => self.reduce()?,
            other => bail!("opcode {other:#04x} does not belong to a dictionary of tensors"),
        };
        self.stack.push(value);
        Ok(())
    }

    fn global(&mut self) -> Result<Value<'a>> {
        Ok(match (self.rest.line()?, self.rest.line()?) {
            ("collections", "OrderedDict") => Value::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Value::RebuildTensor,
            ("torch", "FloatStorage") => Value::FloatStorage,
            (module, name) => bail!("needs {module}.{name}; only dictionaries of float32 tensors are read"),
        })
    }

    fn storage(&mut self) -> Result<Value<'a>> {
        match self.pop_tuple()?[..] {
            [Value::Str("storage"), Value::FloatStorage, Value::Str(key), _, Value::Int(count)] => {
                Ok(Value::Storage(key, count.try_into().context("a storage of negative length")?))
            }
            _ => bail!("a persistent object that is no storage of floats"),
        }
    }

    fn reduce(&mut self) -> Result<Value<'a>> {
        let args = self.pop_tuple()?;
        match (self.pop()?, &args[..]) {
            (Value::OrderedDict, []) => Ok(self.dict()),
            (Value::RebuildTensor, args) => self.tensor(args),
            _ => bail!("a call that makes neither a dictionary nor a tensor"),
        }
    }

    fn tensor(&mut self, args: &[Value<'a>]) -> Result<Value<'a>> {
        use Value::{Int, Storage, Tuple};
        let &[Storage(key, count), Int(offset), Tuple(shape), Tuple(strides), ..] = args else {
            bail!("a tensor must be made of a storage, an offset, a shape and strides");
        };
        let (shape, strides) = (self.lengths(shape)?, self.lengths(strides)?);
        ensure!(contiguous(&shape, &strides), "strides {strides:?} of {shape:?}: save it .contiguous()");
        let offset = offset.try_into().context("a tensor at a negative offset")?;
        self.tensors.push(View { key, count, offset, shape });
        Ok(Value::Tensor(self.tensors.len() - 1))
    }

    fn lengths(&self, tuple: usize) -> Result<Vec<usize>> {
        let items = &self.tuples[tuple];
        ensure!(items.len() <= MAX_DIMENSIONS, "{} dimensions, over {MAX_DIMENSIONS}", items.len());
        let length = |item: &Value| match *item {
            Value::Int(n) => usize::try_from(n).context("a negative length or stride"),
            _ => bail!("a length or stride that is no integer"),
        };
        items.iter().map(length).collect()
    }

    fn tuple(&mut self, items: Vec<Value<'a>>) -> Value<'a> {
        self.tuples.push(items.into());
        Value::Tuple(self.tuples.len() - 1)
    }

    fn dict(&mut self) -> Value<'a> {
        self.dicts.push(Vec::new());
        Value::Dict(self.dicts.len() - 1)
    }

    fn set(&mut self, items: &[Value<'a>]) -> Result<()> {
        let Some(Value::Dict(dict)) = self.stack.last() else { bail!("items are set in no dictionary") };
        let (pairs, rest) = items.as_chunks();
        ensure!(rest.is_empty(), "a key without a value");
        self.dicts[*dict].extend_from_slice(pairs);
        Ok(())
    }

    fn pop_many(&mut self, n: usize) -> Result<Vec<Value<'a>>> {
        let start = self.stack.len().checked_sub(n).context("the stack is empty")?;
        let items = self.stack.split_off(start);
        ensure!(!items.iter().any(|item| matches!(item, Value::Mark)), "a mark in place of a value");
        Ok(items)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let depth = self.stack.iter().rev().position(|item| matches!(item, Value::Mark));
        let items = self.pop_many(depth.context("a mark is missing")?);
        self.stack.pop();
        items
    }

    fn pop(&mut self) -> Result<Value<'a>> {
        self.stack.pop().context("the stack is empty")
    }

    fn pop_tuple(&mut self) -> Result<Rc<[Value<'a>]>> {
        let Value::Tuple(tuple) = self.pop()? else { bail!("arguments that are no tuple") };
        Ok(self.tuples[tuple].clone())
    }

    fn long(&mut self) -> Result<Value<'a>> {
        let [length] = self.rest.take()?;
        let bytes = self.rest.bytes(length.into())?;
        ensure!(length <= 8, "an integer of {length} bytes");
        let sign = if bytes.last().is_some_and(|&b| b > 0x7f) { -1 } else { 0 };
        Ok(Value::Int(bytes.iter().rev().fold(sign, |n: i64, &b| n << 8 | i64::from(b))))
    }
}

/// Whether the strides are those of row-major order, but for dimensions of one element, which have any.
fn contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let inner = |at: usize| shape.get(at + 1..).and_then(volume);
    let mut dims = shape.iter().zip(strides).enumerate();
    shape.len() == strides.len()
        && (shape.contains(&0) || dims.all(|(at, (&n, &stride))| n == 1 || inner(at) == Some(stride)))
}
