// The file format: protocol buffers, read field by field (sentencepiece_model.proto).
#include <cstring>
#include <limits>

#include "core/base/quote.h"
#include "core/tokenizer/models/sentencepiece.h"

namespace tenon::tok {
namespace {

enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t value = 0;      // of varint, fixed32 and fixed64
  std::string_view bytes;  // of bytes
};

// One message. Every read is checked against its end.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  Result<Field> next() {
    TENON_ASSIGN_OR_RETURN(const uint64_t key, varint());
    Field field;
    field.number = static_cast<uint32_t>(key >> 3);
    field.wire = static_cast<Wire>(key & 7);
    if (key >> 3 == 0 || key >> 3 > std::numeric_limits<uint32_t>::max()) return broken();
    switch (field.wire) {
      case Wire::varint: {
        TENON_ASSIGN_OR_RETURN(field.value, varint());
        return field;
      }
      case Wire::fixed64: {
        TENON_ASSIGN_OR_RETURN(field.value, fixed(8));
        return field;
      }
      case Wire::fixed32: {
        TENON_ASSIGN_OR_RETURN(field.value, fixed(4));
        return field;
      }
      case Wire::bytes: {
        TENON_ASSIGN_OR_RETURN(const uint64_t length, varint());
        if (length > rest_.size()) return broken();
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return field;
      }
    }
    return broken();
  }

 private:
  static Status broken() {
    return invalid_argument(
        "not a SentencePiece model, or cut off: its protocol buffer cannot be read");
  }
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return broken();
  }
  Result<uint64_t> fixed(size_t bytes) {
    if (rest_.size() < bytes) return broken();
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string_view rest_;
};

// Calls `take(field)` for every field of a message.
template <typename Take>
Status each_field(std::string_view bytes, Take take) {
  Message message(bytes);
  while (!message.done()) {
    TENON_ASSIGN_OR_RETURN(const Field field, message.next());
    TENON_RETURN_IF_ERROR(take(field));
  }
  return Status();
}

Status take_piece(std::string_view bytes, SentencePieceModel& model) {
  SentencePieceModel::Piece piece;
  TENON_RETURN_IF_ERROR(each_field(bytes, [&](const Field& field) {
    if (field.number == 1 && field.wire == Wire::bytes) piece.text = field.bytes;
    if (field.number == 2 && field.wire == Wire::fixed32) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field.number == 3 && field.wire == Wire::varint) {
      if (field.value < 1 || field.value > 6) {
        return invalid_argument("a piece of the unknown type " + std::to_string(field.value));
      }
      piece.type = static_cast<PieceType>(field.value);
    }
    return Status();
  }));
  model.pieces.push_back(std::move(piece));
  return Status();
}

// A negative id (as int32 in a varint of 64 bits) says that there is no such token.
std::optional<TokenId> token_id(uint64_t value) {
  const auto id = static_cast<int64_t>(value);
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) return std::nullopt;
  return static_cast<TokenId>(id);
}

struct TrainerSpec {
  uint64_t model_type = 1;  // 1 unigram, 2 BPE, 3 word, 4 char
  bool whitespace_as_suffix = false;
};

Status take_trainer(std::string_view bytes, SentencePieceModel& model, TrainerSpec& spec) {
  return each_field(bytes, [&](const Field& field) {
    if (field.number == 44 && field.wire == Wire::bytes) model.unknown_surface = field.bytes;
    if (field.wire != Wire::varint) return Status();
    switch (field.number) {
      case 3:
        spec.model_type = field.value;
        break;
      case 24:
        spec.whitespace_as_suffix = field.value != 0;
        break;
      case 35:
        model.byte_fallback = field.value != 0;
        break;
      case 41:
        model.bos = token_id(field.value);
        break;
      case 42:
        model.eos = token_id(field.value);
        break;
      default:
        break;
    }
    return Status();
  });
}

Status take_normalizer(std::string_view bytes, SentencePieceModel& model) {
  return each_field(bytes, [&](const Field& field) {
    if (field.number == 2 && field.wire == Wire::bytes) model.charsmap = field.bytes;
    if (field.wire != Wire::varint) return Status();
    if (field.number == 3) model.add_dummy_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) model.escape_whitespaces = field.value != 0;
    return Status();
  });
}

Status take_denormalizer(std::string_view bytes) {
  return each_field(bytes, [](const Field& field) {
    if (field.number != 2 || field.bytes.empty()) return Status();
    return unsupported("the model has rules for denormalization, which are not supported");
  });
}

Status check_spec(const TrainerSpec& spec) {
  constexpr std::string_view kTypes[] = {"?", "unigram", "BPE", "word", "character"};
  if (spec.model_type != 2) {
    const std::string_view type = kTypes[spec.model_type < 5 ? spec.model_type : 0];
    return unsupported("the SentencePiece model is of the type " + in_quotes(type) +
                       "; only BPE is supported");
  }
  if (spec.whitespace_as_suffix) {
    return unsupported(
        "the SentencePiece model has treat_whitespace_as_suffix, which is not "
        "supported");
  }
  return Status();
}

Status check_pieces(const SentencePieceModel& model) {
  size_t unknown = 0;
  size_t bytes = 0;
  for (const auto& piece : model.pieces) {
    if (piece.type == PieceType::unknown) ++unknown;
    if (piece.type == PieceType::byte) ++bytes;
  }
  if (unknown != 1) {
    return invalid_argument("the model has " + std::to_string(unknown) +
                            " pieces for what is unknown; it must have one");
  }
  if (model.byte_fallback && bytes != 256) {
    return invalid_argument("the model falls back to bytes, but has " + std::to_string(bytes) +
                            " byte pieces, not 256");
  }
  return Status();
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  SentencePieceModel model;
  model.bos = 1;  // what the format means where the fields are left out
  model.eos = 2;
  TrainerSpec spec;
  TENON_RETURN_IF_ERROR(each_field(bytes, [&](const Field& field) {
    if (field.wire != Wire::bytes) return Status();
    switch (field.number) {
      case 1:
        return take_piece(field.bytes, model);
      case 2:
        return take_trainer(field.bytes, model, spec);
      case 3:
        return take_normalizer(field.bytes, model);
      case 5:
        return take_denormalizer(field.bytes);
      default:
        return Status();
    }
  }));
  if (model.pieces.empty()) {
    return invalid_argument("not a SentencePiece model: it has no pieces");
  }
  TENON_RETURN_IF_ERROR(check_spec(spec));
  TENON_RETURN_IF_ERROR(check_pieces(model));
  return model;
}

}  // namespace tenon::tok
