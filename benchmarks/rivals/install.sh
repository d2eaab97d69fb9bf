#!/bin/bash
# Installs the toolkits we compare ourselves with, each in a virtual environment of its own that borrows torch from
# a common one (Hugging Face has its own). Nothing is written outside the folder given.    bash install.sh $RIVALS
set -euo pipefail
root=$(mkdir -p "$1" && cd "$1" && pwd)
site=lib/python3.11/site-packages
constraint="$root/constraint.txt" # a plain torch would bring gigabytes of CUDA
echo "torch==2.13.0" > "$constraint"

python3.11 -m venv "$root/base"
"$root/base/bin/pip" install -q torch==2.13.0 numpy sacremoses==0.2.0 subword-nmt==0.3.8 setuptools wheel
for rival in opennmt fairseq joey eole sockeye; do
    python3.11 -m venv "$root/$rival"
    echo "$root/base/$site" > "$root/$rival/$site/base.pth"
done

# OpenNMT-py pins torch < 2.3, hence --no-deps. It imports every transform it has; the four that want spacy,
# fasttext, rapidfuzz or pyahocorasick take no part in training on ready text and are put aside.
"$root/opennmt/bin/pip" install -q --no-deps OpenNMT-py==3.5.1
"$root/opennmt/bin/pip" install -q configargparse pyyaml six sacrebleu pyonmttok==1.37.1
mkdir -p "$root/opennmt/aside"
for transform in terminology inlinetags fuzzymatch clean; do
    mv "$root/opennmt/$site/onmt/transforms/$transform.py" "$root/opennmt/aside/"
done

# fairseq: only its Cython parts are built (its C++ extensions serve other models).
# What Python 3.11 refuses in it is got round in toolkits/fairseq.py, on import.
"$root/fairseq/bin/pip" install -q "cython<3.1" bitarray cffi regex sacrebleu tqdm PyYAML antlr4-python3-runtime==4.8
"$root/fairseq/bin/pip" install -q --no-deps hydra-core==1.0.7 omegaconf==2.0.6
mkdir -p "$root/src"
"$root/fairseq/bin/pip" download -q --no-deps --no-build-isolation --no-binary fairseq -d "$root/src" fairseq==0.12.2
tar -xzf "$root/src/fairseq-0.12.2.tar.gz" -C "$root/src"
sed -i 's/^    from torch.utils import cpp_extension/    raise ImportError/' "$root/src/fairseq-0.12.2/setup.py"
"$root/fairseq/bin/pip" install -q --no-deps --no-build-isolation "$root/src/fairseq-0.12.2"

# Joey NMT caps protobuf and names linters among its requirements, but not importlib_metadata, which it imports.
"$root/joey/bin/pip" install -q --no-deps joeynmt==2.3.0
"$root/joey/bin/pip" install -q pyyaml sacrebleu sentencepiece packaging matplotlib pandas datasets tensorboard \
    importlib_metadata

# Hugging Face Marian.
python3.11 -m venv "$root/hf"
"$root/hf/bin/pip" install -q -c "$constraint" torch==2.13.0 transformers==5.22.2 sentencepiece

# Eole imports all its commands at once, and one of them aiohttp, which it does not declare.
"$root/eole/bin/pip" install -q -c "$constraint" eole==0.6.4 aiohttp

# Sockeye pins torch < 1.14 and numpy < 2, hence --no-deps.
"$root/sockeye/bin/pip" install -q --no-deps sockeye==3.1.34
"$root/sockeye/bin/pip" install -q -c "$constraint" pyyaml sacrebleu
