# The embedded model as WebAssembly: under Node with and without SIMD, and in a browser.
#
#   wasm      both modules spell words as the command line does
#   browser   so does the page in headless Chromium, with SIMD

STEPS+=(wasm browser)

WEB=std-bindings/web
WEB_TEXTS=(transformer a tree "don't" incomprehensibility "" "42: The quick brown fox, as they say.")

# Makes sure of a program, or says what is skipped without it.
wasm_needs() { # program, Debian's package
    command -v "$1" > /dev/null && return
    apt-get -qq install -y --no-install-recommends "$2" > /dev/null 2>&1 && command -v "$1" > /dev/null && return
    echo "SKIPPED: there is no $1, and the package $2 cannot be had"
    return 1
}

wasm_modules() { RUSTC=$CROSS/bin/rustc "$WEB/build.sh"; }

wasm() {
    wasm_needs node nodejs || return 0
    wasm_modules
    cargo run -q --release -p picoformer -- run "${WEB_TEXTS[@]}" 2> /dev/null > target/wasm-expected.txt
    local module
    for module in picoformer.wasm picoformer-simd.wasm; do
        node tests/targets/wasm.mjs "$WEB/$module" "${WEB_TEXTS[@]}" > target/wasm-found.txt
        diff target/wasm-expected.txt target/wasm-found.txt || { echo "$module differs from the command line"; return 1; }
        echo "$module: ${#WEB_TEXTS[@]} texts, the same letters"
    done
}

# In a shell of its own, whose end stops the server.
browser() (
    wasm_needs chromium chromium || exit 0
    wasm_modules
    room=$(mktemp -d)
    python3 -u -m http.server --bind 127.0.0.1 --directory "$WEB" 0 > "$room/server" 2>&1 &
    server=$!
    trap 'kill $server; rm -rf "$room"' EXIT
    until url=$(grep -o 'http://[0-9.:]*' "$room/server"); do sleep 0.1; done
    for text in transformer "the quick brown fox"; do
        expected=$(cargo run -q --release -p picoformer -- run "$text")
        page=$(timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
            --disable-background-networking --disable-component-update --disable-sync \
            --user-data-dir="$room/profile" --virtual-time-budget=60000 --dump-dom \
            "$url/?text=${text// /+}" 2> "$room/chromium") || { tail -3 "$room/chromium"; exit 1; }
        grep -oF "<output id=\"answer\">$expected</output>" <<< "$page" || { echo "$page"; exit 1; }
        grep -o 'picoformer-simd.wasm, [0-9.]* ms' <<< "$page"
    done
)
