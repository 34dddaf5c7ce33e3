// The embedded model in a browser (or in Node): finds memory for it, and turns text to bytes.
//
//     const model = await load();            // beside this file, with SIMD where there is
//     model.transform("hello");              // "HH EH1 L OW0"

// A function that makes a vector: only an engine with SIMD calls it valid.
const VECTOR = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11];

/** The name of the module that this engine runs fastest. */
export function fastest() {
  return WebAssembly.validate(new Uint8Array(VECTOR)) ? "picoformer-simd.wasm" : "picoformer.wasm";
}

/** Fetches and starts a module. */
export async function load(name = fastest()) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return start(await response.arrayBuffer());
}

/** Starts a module from its bytes. */
export async function start(bytes) {
  return new Model((await WebAssembly.instantiate(bytes)).instance.exports);
}

const CODES = {
  [-1]: "the text is not UTF-8",
  [-2]: "the arena is too small",
  [-3]: "the answer is too long",
  [-4]: "a word is longer than the model reads",
  [-5]: "the module has no model that transforms text",
};

const PAGE = 65536;

/** A module that runs, with the memory that it needs. */
class Model {
  #exports;
  #arena;
  #texts = { at: 0, length: 0 };

  constructor(exports) {
    this.#exports = exports;
    this.#arena = this.#grow(exports.arena_bytes());
  }

  // So many bytes or more that nothing else uses.
  #grow(bytes) {
    const pages = Math.ceil(bytes / PAGE);
    return { at: this.#exports.memory.grow(pages) * PAGE, length: pages * PAGE };
  }

  /** What the model makes of a text. */
  transform(text) {
    const input = new TextEncoder().encode(text);
    // A letter may become a phoneme of three letters and a space, and a word a gap more.
    const need = input.length + 64 * (input.length + 1);
    if (this.#texts.length < need) this.#texts = this.#grow(need);
    const { at, length } = this.#texts;
    new Uint8Array(this.#exports.memory.buffer).set(input, at);
    const answer = at + input.length;
    const code = this.#exports.transform(
      this.#arena.at, this.#arena.length, at, input.length, answer, length - input.length,
    );
    if (code < 0) throw new Error(CODES[code]);
    return new TextDecoder().decode(new Uint8Array(this.#exports.memory.buffer, answer, code));
  }
}
