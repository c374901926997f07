"""The fields of requests that packages of clients and servers know, read from their sources.

    python3 tests/support/client_fields.py FOLDER… > tests/support/client_fields.txt

reads openai, anthropic, vllm and sglang from these folders (unpacked wheels suffice), or from where Python
finds them. Nothing of theirs is imported. A line says in which body a field stands, its name, and who has it.
"""
import ast
import importlib.metadata
import importlib.util
import pathlib
import sys

OPENAI, ANTHROPIC = "types", "types"
VLLM, SGLANG = "entrypoints", "srt/entrypoints"
# (package, body, files, class)
SOURCES = (
    ("openai", "chat", f"{OPENAI}/chat/completion_create_params.py", "CompletionCreateParamsBase"),
    ("openai", "completions", f"{OPENAI}/completion_create_params.py", "CompletionCreateParamsBase"),
    ("openai", "responses", f"{OPENAI}/responses/response_create_params.py", "ResponseCreateParamsBase"),
    ("openai", "responses", f"{OPENAI}/responses/input_token_count_params.py", "InputTokenCountParams"),
    ("openai", "embeddings", f"{OPENAI}/embedding_create_params.py", "EmbeddingCreateParams"),
    ("anthropic", "messages", f"{ANTHROPIC}/message_create_params.py", "MessageCreateParamsBase"),
    ("anthropic", "messages", f"{ANTHROPIC}/beta/message_create_params.py", "MessageCreateParamsBase"),
    ("anthropic", "messages", f"{ANTHROPIC}/message_count_tokens_params.py", "MessageCountTokensParams"),
    ("anthropic", "messages", f"{ANTHROPIC}/beta/message_count_tokens_params.py", "MessageCountTokensParams"),
    ("vllm", "chat", f"{VLLM}/openai/chat_completion/protocol.py", "ChatCompletionRequest"),
    ("vllm", "completions", f"{VLLM}/openai/completion/protocol.py", "CompletionRequest"),
    ("vllm", "responses", f"{VLLM}/openai/responses/protocol.py", "ResponsesRequest"),
    ("vllm", "messages", f"{VLLM}/anthropic/protocol.py", "AnthropicMessagesRequest"),
    ("vllm", "messages", f"{VLLM}/anthropic/protocol.py", "AnthropicCountTokensRequest"),
    ("vllm", "embeddings", f"{VLLM}/pooling/*/protocol.py", "EmbeddingCompletionRequest"),
    ("vllm", "embeddings", f"{VLLM}/pooling/*/protocol.py", "EmbeddingChatRequest"),
    ("vllm", "tokenize", f"{VLLM}/serve/tokenize/protocol.py", "TokenizeCompletionRequest"),
    ("vllm", "tokenize", f"{VLLM}/serve/tokenize/protocol.py", "TokenizeChatRequest"),
    ("vllm", "detokenize", f"{VLLM}/serve/tokenize/protocol.py", "DetokenizeRequest"),
    ("sglang", "chat", f"{SGLANG}/openai/protocol.py", "ChatCompletionRequest"),
    ("sglang", "completions", f"{SGLANG}/openai/protocol.py", "CompletionRequest"),
    ("sglang", "responses", f"{SGLANG}/openai/protocol.py", "ResponsesRequest"),
    ("sglang", "messages", f"{SGLANG}/anthropic/protocol.py", "AnthropicMessagesRequest"),
    ("sglang", "messages", f"{SGLANG}/anthropic/protocol.py", "AnthropicCountTokensRequest"),
    ("sglang", "embeddings", f"{SGLANG}/openai/protocol.py", "EmbeddingRequest"),
    ("sglang", "tokenize", f"{SGLANG}/openai/protocol.py", "TokenizeRequest"),
    ("sglang", "detokenize", f"{SGLANG}/openai/protocol.py", "DetokenizeRequest"),
)
PACKAGES = ("openai", "anthropic", "vllm", "sglang")


def folder_of(package, folders):
    """Where its sources lie, or None."""
    for folder in folders:
        if (pathlib.Path(folder) / package).is_dir():
            return pathlib.Path(folder) / package
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or []) if found else []
    return pathlib.Path(places[0]) if places else None


def version_of(package, folder):
    for info in folder.parent.glob(f"{package}-*.dist-info"):
        return info.name[len(package) + 1:-len(".dist-info")]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def classes_of(files):
    return {node.name: node for file in files for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ClassDef)}


def members(classes, name):
    """Annotated members of the class and its bases; what begins with _ is no field."""
    node = classes.get(name)
    if node is None:
        return set()
    found = set()
    for base in node.bases:
        found |= members(classes, getattr(base, "id", getattr(base, "attr", "")))
    return found | {line.target.id for line in node.body
                    if isinstance(line, ast.AnnAssign) and not line.target.id.startswith("_")}


def fields_of(package, folder):
    """{(body, field)}"""
    found = set()
    for owner, body, files, name in SOURCES:
        if owner != package:
            continue
        names = members(classes_of(sorted(folder.glob(files))), name)
        assert names, f"{package} has no {name} in {files}"
        found |= {(body, field) for field in names}
        # Methods that stream have the field in a class of their own.
        if body in ("chat", "completions", "responses", "messages"):
            found.add((body, "stream"))
    return found


def main(folders):
    owners = {}
    print("# Fields of requests: body, name, who has it. Made by tests/support/client_fields.py from")
    for package in PACKAGES:
        folder = folder_of(package, folders)
        assert folder, f"there is no {package}"
        print(f"# {package} {version_of(package, folder)}")
        for field in fields_of(package, folder):
            owners.setdefault(field, []).append(package)
    for (body, name), packages in sorted(owners.items()):
        print(body, name, ",".join(packages))


if __name__ == "__main__":
    main(sys.argv[1:])
