"""fairseq: a fresh model, and what its hub interface does: `task.inference_step` with a `SequenceGenerator`."""

from collections.abc import Callable
from pathlib import Path

from toolkits.fairseq import hashable_dataclasses, model
from workload import Workload, joint_vocabulary


def searcher(workload: Workload, folder: Path, *, beam: int, batch: int, length: int) -> Callable:
    with hashable_dataclasses():
        from fairseq import options, tasks
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import open_dict

    vocabulary = "".join(f"{piece} {n}\n" for piece, n in joint_vocabulary(workload))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(vocabulary, encoding="utf-8")
    given = options.parse_args_and_arch(
        options.get_training_parser(),
        [
            *[str(folder), "--task", "translation", "-s", "en", "-t", "de", "--cpu", *model(workload)],
            *["--encoder-layers", str(workload.layers), "--decoder-layers", str(workload.layers)],
        ],
    )
    config = convert_namespace_to_omegaconf(given)
    task = tasks.setup_task(config.task)
    fresh = task.build_model(config.model).eval()
    fresh.prepare_for_inference_(config)
    with open_dict(config):
        config.generation.beam = beam
        # its limits do not count the end mark, for which it takes another step: `length` steps in all
        config.generation.max_len_a, config.generation.max_len_b, config.generation.min_len = 0, length - 1, length - 1
    generator = task.build_generator([fresh], config.generation)
    words = task.source_dictionary

    def search(lines: list[str]) -> list[int]:
        ids = [words.encode_line(line, add_if_not_exist=False).long() for line in lines]
        data = task.build_dataset_for_inference(ids, [len(one) for one in ids])
        batches = task.get_batch_iterator(data, max_sentences=batch, disable_iterator_cache=True)
        found = []
        for sample in batches.next_epoch_itr(shuffle=False):
            for best in task.inference_step(generator, [fresh], sample):
                task.target_dictionary.string(best[0]["tokens"])
                found.append(len(best[0]["tokens"]))
        return found

    return search
