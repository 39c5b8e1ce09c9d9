"""vLLM with a model: a Llama of two layers with weights at random, and steps of generating text. On the dry device nobody computes how
many tokens a step has produced, so that steps come to no end: how many are made is said here, and what they produce is not compared."""

import json
import os
import pathlib
import sys
import tempfile

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_NO_USAGE_STATS"] = "1"

from cases import case

sys.path.remove(str(pathlib.Path(__file__).parent))  # vLLM looks for a package triton_kernels, which is a script of ours there

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 512, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu",
}  # fmt: skip
made = []


def prompt(length):
    return {"prompt_token_ids": [1, *range(5, 4 + length)]}


@case
def construction():
    from vllm import LLM

    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(CONFIG))
    made.append(LLM(model=str(folder), load_format="dummy", enforce_eager=True, skip_tokenizer_init=True, max_model_len=128,
                    max_num_seqs=4, max_num_batched_tokens=128, gpu_memory_utilization=0.5, dtype="bfloat16", disable_log_stats=True))


@case
def memory():
    import torch

    blocks = made[0].llm_engine.vllm_config.cache_config.num_gpu_blocks
    held, (free, total) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    assert blocks > 1000 and total * 0.3 < held < total * 0.55, (blocks, held, free, total)


@case
def steps():
    import torch
    from vllm import SamplingParams

    engine = made[0].llm_engine
    greedy = SamplingParams(max_tokens=4, temperature=0, detokenize=False, ignore_eos=True)
    drawn = SamplingParams(max_tokens=8, temperature=0.8, top_k=20, top_p=0.9, seed=3, detokenize=False, ignore_eos=True)
    for name, length, how in (("one", 4, greedy), ("two", 40, drawn), ("three", 7, drawn)):
        engine.add_request(name, prompt(length), how)
    for _ in range(10):
        engine.step()
    torch.cuda.synchronize()
    engine.abort_request(["one", "two", "three"])
    engine.step()
    assert not engine.has_unfinished_requests()
    torch.cuda.synchronize()
