// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/protocol/lookup_name.h"

namespace sok {

uint64_t NameHash(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

uint64_t LookupName::Hash() const {
  MessageWriter writer;
  Write(&writer);
  return NameHash(writer.bytes());
}

std::string LookupName::Text() const {
  std::string text = name;
  if (graph > 0) text += " of graph " + std::to_string(graph);
  if (session > 0) text += " of session " + std::to_string(session + 1);
  if (start >= 0) text += " of start " + std::to_string(start);
  return text;
}

void LookupName::Write(MessageWriter* writer) const {
  writer->Text(name);
  writer->Number(graph);
  writer->Number(session);
  writer->Number(start);
}

LookupName LookupName::Read(MessageReader* reader) {
  LookupName read;
  read.name = reader->Text();
  read.graph = reader->Number();
  read.session = reader->Number();
  read.start = reader->Number();
  return read;
}

}  // namespace sok
