"""Requests: token ids for models that have no tokenizer, and texts for `tale`."""

TEXTS = ("The old witch", "A king had a daughter who", "Once upon a time",
         "In the deep forest there lived", "The fox said to the wolf:", "\"Who is there?\" cried",
         "There was a miller", "The sea", "She took the golden ring and",
         "Every night the bear came", "The youngest son", "One day")


def token_ids(count, seed, vocabulary):
    """Ids from 3 on, as those below often are special tokens: the same for the same seed."""
    state, ids = seed * 2654435761 + 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        ids.append(3 + (state >> 33) % (vocabulary - 3))
    return ids


def token_requests(vocabulary=99, **fields):
    """Prompts of one token, of a few, and beyond blocks and windows."""
    fields = {"max_tokens": 24, "temperature": 0, "ignore_eos": True, **fields}
    return [{"prompt": token_ids(length, length, vocabulary), **fields}
            for length in (1, 7, 40, 19)]


def mixed_token_requests(**fields):
    """Half of them greedy, half drawn with a temperature."""
    return token_requests() + token_requests(**fields)


def text_requests(**fields):
    """12 prompts and 13 answers of 20 to 44 tokens, greedy ones and ones drawn with a temperature,
    some of the 40 likeliest tokens."""
    return [{"prompt": text, "max_tokens": 20 + i % 5 * 6, "seed": i,
             "temperature": 0 if i % 2 == 0 else 0.8, "top_p": 1.0 if i % 2 == 0 else 0.9,
             "top_k": 40 if i % 3 == 0 else 0, "samples": 2 if i == 3 else 1,
             "ignore_eos": True, **fields} for i, text in enumerate(TEXTS)]
