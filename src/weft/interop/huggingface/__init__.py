"""Models of Hugging Face: from a folder of config.json, safetensors and tokenizer files to a run folder, and back.

importing.py       `read_model`: the outline
hub.py             a name on the Hub becomes a folder
folder.py          the files of a folder; nothing in them is executed
configuration.py   config.json, value by value
families.py        which families of models are known
bart.py, t5.py     settings and weights of a family
generation.py      generation_config.json as search settings
tokenizers.py      tokenizers, and the frame of a text; tokenizer_files.py, vocabularies.py, languages.py: their parts
exporting.py       `export_model`: the inverse, from a run to a folder; architectures.py: the equivalent class;
                   bart_weights.py, t5_weights.py, generation_export.py and tokenizer_export.py: its files
sharing.py         runs on the Hub
peft.py            adapters (LoRA)

Importing this package imports neither torch nor transformers.
"""
