"""CEL as Kubernetes uses it: which expressions compile, what they read, what they return for a value."""

from headgate.apiserver.cel.expressions import (
    CompilationError,
    EvaluationError,
    InvalidPath,
    ValidationRule,
    compile_expression,
    compile_program,
    compile_rule,
    evaluate_program,
    field_path,
)
from headgate.apiserver.cel.functions import ACCOUNT, AUTHORIZER, authorizer_value, deciding
from headgate.apiserver.cel.reads import Reads, note_reads
from headgate.apiserver.cel.views import (
    EMBEDDED,
    VALIDATIONS,
    ObjectView,
    ReducedObject,
    compile_view,
    has_rules,
)

__all__ = [
    "ACCOUNT",
    "AUTHORIZER",
    "EMBEDDED",
    "VALIDATIONS",
    "CompilationError",
    "EvaluationError",
    "InvalidPath",
    "ObjectView",
    "Reads",
    "ReducedObject",
    "ValidationRule",
    "authorizer_value",
    "compile_expression",
    "compile_program",
    "compile_rule",
    "compile_view",
    "deciding",
    "evaluate_program",
    "field_path",
    "has_rules",
    "note_reads",
]
