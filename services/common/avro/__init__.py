"""Avro messages with the schemas of ``schemas/avro/``, which a schema registry stores."""

from services.common.avro.codec import AvroCodec, decode_known, decode_record, frame, unframe
from services.common.avro.registry_check import RegistryCheck
from services.common.avro.registry_token import report_token_expiry
from services.common.avro.schema_registry import (
    COMPILED_SUBJECTS,
    SUBJECTS,
    Registry,
    SchemaRegistry,
    local_schemas,
    value_subject,
)

__all__ = [
    "COMPILED_SUBJECTS",
    "SUBJECTS",
    "AvroCodec",
    "Registry",
    "RegistryCheck",
    "SchemaRegistry",
    "decode_known",
    "decode_record",
    "frame",
    "local_schemas",
    "report_token_expiry",
    "unframe",
    "value_subject",
]
