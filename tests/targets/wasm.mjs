// Runs a module under Node, as the page does: node wasm.mjs MODULE TEXT… prints an answer a line.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { start } from "../../std-bindings/web/picoformer.js";

const [module, ...texts] = process.argv.slice(2);
const model = await start(readFileSync(module));
for (const text of texts) console.log(model.transform(text));

// What it refuses changes nothing; what is longer than all before finds room.
assert.throws(() => model.transform("a".repeat(1000)), /longer than the model reads/);
const many = Array(200).fill(texts[0]).join(" ");
assert.equal(model.transform(many), Array(200).fill(model.transform(texts[0])).join("  "));

// The module itself: whoever gives too little is told.
const { memory, arena_bytes, transform } = (await WebAssembly.instantiate(readFileSync(module))).instance.exports;
const bytes = arena_bytes();
const arena = memory.grow(Math.ceil(bytes / 65536) + 1) * 65536;
const text = arena + bytes;
new Uint8Array(memory.buffer).set([0x68, 0x69, 0xff], text);
const run = (arena, length, letters, room) => transform(arena, length, text, letters, text + 3, room);
assert.equal(run(arena, bytes, 2, 100), model.transform("hi").length);
assert.equal(run(arena, bytes - 64, 2, 100), -2);
assert.equal(run(arena + 4, bytes, 2, 100), -2);
assert.equal(run(arena, bytes, 3, 100), -1);
assert.equal(run(arena, bytes, 2, 3), -3);
