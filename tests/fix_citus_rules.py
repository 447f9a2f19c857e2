"""What Citus refuses in statements on tables that it distributes or copies, found in parse trees and in the catalog.

The rules are those of Citus 14: `TargetlistAndFunctionsSupported` and `ModifyQuerySupported` in its source. A statement
on local tables alone keeps them all.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_query_trees import Node, printed_trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Connection = asyncpg.Connection[asyncpg.Record]

ROW_IN_SELECT = "a row is IN (SELECT) of an UPDATE or DELETE"
SUBQUERY_IN_INSERT = "a subquery in VALUES or DO UPDATE"
MUTABLE_FUNCTION = "a function that is not immutable in CASE, COALESCE or DO UPDATE, or with columns in SET"
TRANSACTION_ID = "transaction ids of one server beside tenants' rows"
SERVER_STATE = "what one server says of itself, and not a parameter first, beside tenants' rows"

OUTER_JOIN = "copied rows LEFT JOIN tenants' rows, and the condition has no tenant as a value"
CORRELATED = "a subquery reads tenants' rows for each copied row"
UNNAMED_UNION = "a WITH of a UNION names its columns, and the first branch does not"
OTHER_WRITE = "a table that is not distributed is written beside tenants' rows"

_UPDATE, _INSERT, _DELETE = 2, 3, 4
_ANY, _ALL = 2, 1
_LEFT_JOIN = 1
# Numbers of the columns that hold the transactions that wrote and deleted a row.
_XMIN, _XMAX = -2, -4
# A parameter of the statement, and one that stands for a column of a subquery.
_EXTERNAL_PARAMETER = 0
_SUBLINK_PARAMETER = 2
_CALLED = {
    "FUNCEXPR": "funcid",
    "OPEXPR": "opfuncid",
    "DISTINCTEXPR": "opfuncid",
    "NULLIFEXPR": "opfuncid",
    "SCALARARRAYOPEXPR": "opfuncid",
}
_TYPES = (
    *("vartype", "paramtype", "consttype", "funcresulttype", "opresulttype", "resulttype", "casetype"),
    *("coalescetype", "minmaxtype", "array_typeid", "aggtype", "type"),
)
_COLUMN_DEFAULTS = """
SELECT attrelid::regclass || '.' || attname AS name
FROM pg_attrdef
JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
JOIN pg_class ON pg_class.oid = adrelid
WHERE NOT relispartition AND pg_get_expr(adbin, adrelid) ~ 'pg_(snapshot_|current_snapshot|current_xact_id)'
ORDER BY 1
"""
_UPDATING_KEYS = """
SELECT conrelid::regclass || '.' || conname AS name
FROM pg_constraint
WHERE contype = 'f' AND confupdtype NOT IN ('a', 'r') AND conparentid = 0
ORDER BY 1
"""


# Roles that may write a table of $1, and may not write a table that it names, at once or through others. Citus locks
# those on every machine for each write of a table that has a copy there, which needs a right on the whole table.
_UNWRITABLE_KEYS = """
WITH RECURSIVE named AS (
    SELECT conrelid AS source, confrelid AS target FROM pg_constraint WHERE contype = 'f' AND conparentid = 0
    UNION
    SELECT named.source, next.confrelid
    FROM named JOIN pg_constraint AS next ON next.conrelid = named.target AND next.contype = 'f'
)
SELECT DISTINCT rolname || ': ' || source::regclass || ' names ' || target::regclass AS name
FROM named
CROSS JOIN pg_roles AS r
WHERE source = ANY ($1::text[]::regclass[]) AND rolname ~ '^skein_' AND rolname <> 'skein_owner'
    AND (has_table_privilege(r.oid, source, 'INSERT, UPDATE, DELETE, TRUNCATE')
         OR has_any_column_privilege(r.oid, source, 'INSERT, UPDATE'))
    AND NOT has_table_privilege(r.oid, target, 'UPDATE, DELETE, TRUNCATE')
ORDER BY 1
"""
# Roles that may insert into some columns of a table of $1, and not into others. Citus names every column in the
# statement that it sends to a shard.
_PARTIAL_INSERTS = """
SELECT DISTINCT rolname || ': ' || c.oid::regclass AS name
FROM unnest($1::text[]::regclass[]) AS c (oid)
CROSS JOIN pg_roles AS r
WHERE rolname ~ '^skein_' AND rolname <> 'skein_owner'
    AND has_any_column_privilege(r.oid, c.oid, 'INSERT') AND NOT has_table_privilege(r.oid, c.oid, 'INSERT')
ORDER BY 1
"""
# Functions that plan once for all values: such a plan of a distributed table has no shard.
_GENERIC_PLANS = """
SELECT oid::regprocedure::text AS name FROM pg_proc
WHERE 'plan_cache_mode=force_generic_plan' = ANY (proconfig)
ORDER BY 1
"""
# Functions of ours, each with a call of it.
_CALLS = """
SELECT p.oid::regproc::text AS name, format('SELECT * FROM %s(%s)', p.oid::regproc, (
    SELECT string_agg(CASE
        WHEN a.type = 'uuid'::regtype THEN quote_literal('00000000-0000-0000-0000-000000000001') || '::uuid'
        WHEN a.type = 'timestamptz'::regtype THEN 'now()'
        WHEN a.type = 'regclass'::regtype THEN quote_literal('memory.memories') || '::regclass'
        WHEN a.type = 'text'::regtype THEN quote_literal('all-minilm-l6-v2')
        WHEN a.type IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'float8'::regtype)
            THEN '1::' || a.type::regtype
        ELSE 'NULL::' || a.type::regtype END, ', ' ORDER BY a.place)
    FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (type, place)
)) AS call
FROM pg_proc AS p
JOIN pg_namespace AS n ON n.oid = p.pronamespace
JOIN pg_roles AS o ON o.oid = n.nspowner AND o.rolname = 'skein_owner'
WHERE p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype
ORDER BY 1
"""
# Tables of $1 that a role may write that also writes rows with a transaction's number.
_COPIES_OF_NUMBERING_ROLES = """
SELECT DISTINCT rolname || ': ' || copied::regclass AS name
FROM unnest($1::text[]::regclass[]) AS copied
CROSS JOIN pg_roles AS r
WHERE rolname ~ '^skein_' AND rolname <> 'skein_owner'
    AND (has_table_privilege(r.oid, copied, 'INSERT, UPDATE, DELETE, TRUNCATE')
         OR has_any_column_privilege(r.oid, copied, 'INSERT, UPDATE'))
    AND EXISTS (
        SELECT FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE a.attname = 'transaction' AND NOT c.relispartition AND c.relkind IN ('r', 'p')
            AND has_table_privilege(r.oid, c.oid, 'INSERT'))
ORDER BY 1
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The rules, with what the catalog says of functions, types and tables, each by its oid."""

    mutable_functions: frozenset[int]
    # Types that are read from text, or written as text, by a function that is not immutable.
    mutable_inputs: frozenset[int]
    mutable_outputs: frozenset[int]
    transaction_functions: frozenset[int]
    # Functions that say something of the server that runs them.
    server_functions: frozenset[int]
    local_tables: frozenset[int]
    tenant_tables: frozenset[int]
    # Tables that Citus distributes, each with the number of its tenant's column.
    distributed: Mapping[int, int]

    @classmethod
    async def read(cls, connection: Connection, local_tables: set[str], distributed_tables: set[str]) -> Rules:
        """Read the catalog. Tables are named with their schemas; those that neither set names are copied."""

        async def oids(query: str, *arguments: object) -> frozenset[int]:
            return frozenset(row[0] for row in await connection.fetch(query, *arguments))

        typed = "SELECT t.oid FROM pg_type AS t JOIN pg_proc AS p ON p.oid = t.{} WHERE p.provolatile <> 'i'"
        return cls(
            mutable_functions=await oids("SELECT oid FROM pg_proc WHERE provolatile <> 'i'"),
            mutable_inputs=await oids(typed.format("typinput")),
            mutable_outputs=await oids(typed.format("typoutput")),
            transaction_functions=await oids(
                "SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
                "AND proname ~ '^(pg_snapshot_|pg_current_snapshot|pg_current_xact_id|txid_)'"
            ),
            server_functions=await oids(
                "SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
                "AND proname ~ '^(pg_postmaster_start_time|pg_conf_load_time|pg_current_wal_|pg_current_logfile|"
                "pg_last_|pg_is_in_recovery|pg_backend_pid|pg_control_|inet_server_|pg_stat_get_)'"
            ),
            local_tables=await oids(
                "SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                "WHERE n.nspname || '.' || c.relname = ANY ($1) OR n.nspname IN ('pg_catalog', 'information_schema')",
                list(local_tables),
            ),
            tenant_tables=await oids("SELECT attrelid FROM pg_attribute WHERE attname = 'tenant_id'"),
            distributed={
                row["attrelid"]: row["attnum"]
                for row in await connection.fetch(
                    "SELECT a.attrelid, a.attnum FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid "
                    "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                    "WHERE n.nspname || '.' || c.relname = ANY ($1) AND a.attname = 'tenant_id'",
                    list(distributed_tables),
                )
            },
        )

    def broken_by(self, tree: Node) -> list[str]:
        """Return the rules that a statement breaks."""
        queries = [node for node in tree.walk() if node.type == "QUERY"]
        tables = {node.number("relid") for node in tree.walk() if node.type == "RANGETBLENTRY"} - {0}
        broken = []
        if not tables <= self.local_tables:
            modifying = [query for query in queries if query.number("commandType") in {_UPDATE, _INSERT, _DELETE}]
            broken += [ROW_IN_SELECT] if any(map(_compares_rows, modifying)) else []
            broken += [SUBQUERY_IN_INSERT] if any(map(_has_subquery, modifying)) else []
            broken += [MUTABLE_FUNCTION] if any(map(self._calls_mutable_function, modifying)) else []
            broken += [OUTER_JOIN] if any(map(self._joins_unnamed, queries)) else []
            broken += [CORRELATED] if any(map(self._reads_for_each_row, queries)) else []
            broken += [UNNAMED_UNION] if any(map(_renames_union, tree.walk())) else []
        if tables & self.distributed.keys():
            broken += [OTHER_WRITE] if any(map(self._writes_other, queries)) else []
        if tables & self.tenant_tables:
            nodes = list(tree.walk())
            broken += [TRANSACTION_ID] if any(map(self._reads_transaction, nodes)) else []
            replaced = {id(node) for each in nodes if _is_parameter_first(each) for node in each.walk()}
            broken += (
                [SERVER_STATE] if any(self._asks_server(node) and id(node) not in replaced for node in nodes) else []
            )
        return broken

    def _writes_other(self, query: Node) -> bool:
        if query.number("commandType") not in {_UPDATE, _INSERT, _DELETE}:
            return False
        written = _tables(query)[query.number("resultRelation") - 1].number("relid")
        return written not in self.distributed

    def _reads_transaction(self, node: Node) -> bool:
        if node.type == "FUNCEXPR":
            return node.number("funcid") in self.transaction_functions
        return node.type == "VAR" and node.number("varattno") in {_XMIN, _XMAX}

    def _asks_server(self, node: Node) -> bool:
        return node.type == "FUNCEXPR" and node.number("funcid") in self.server_functions

    def _calls_mutable_function(self, query: Node) -> bool:
        is_update = query.number("commandType") == _UPDATE
        assigned = [node for field in ("onConflict",) for node in query.below(field)]
        for field in ("targetList", "jointree"):
            for node in query.below(field):
                if node.type in {"CASEEXPR", "COALESCEEXPR"}:
                    assigned += node.walk()
                elif is_update and field == "targetList" and self._is_mutable(node) and _reads_columns(node):
                    return True
        return any(map(self._is_mutable, assigned))

    def _joins_unnamed(self, query: Node) -> bool:
        tables = self._distributed_of(query)
        for join in _own_nodes(query.fields["jointree"]):
            if join.type != "JOINEXPR" or join.number("jointype") != _LEFT_JOIN:
                continue
            left, right = (
                {node.number("rtindex") for node in _own_nodes(join.fields[side]) if node.type == "RANGETBLREF"}
                for side in ("larg", "rarg")
            )
            conditions = list(_own_nodes(join.fields["quals"]))
            if not any(self._reads_distributed(_tables(query)[index - 1]) for index in left) and any(
                not _names_tenant(conditions, index, tables[index]) for index in right & set(tables)
            ):
                return True
        return False

    def _reads_for_each_row(self, query: Node) -> bool:
        laterals = [table for table in _tables(query) if table.fields["lateral"] == ["true"]]
        if any(self._reads_distributed(table) for table in _tables(query) if table not in laterals):
            return False
        links = [node for node in _own_nodes(list(query.fields.values())) if node.type == "SUBLINK"]
        within = [one for table in laterals for one in table.fields.get("subquery", [])]
        within += [one for link in links for one in link.fields["subselect"]]
        return any(isinstance(one, Node) and self._is_correlated(one) for one in within)

    def _is_correlated(self, query: Node) -> bool:
        nodes = list(_own_nodes(list(query.fields.values())))
        is_outer = any(node.type == "VAR" and node.number("varlevelsup") for node in nodes)
        tables = self._distributed_of(query)
        return is_outer and any(not _names_tenant(nodes, index, tables[index]) for index in tables)

    def _distributed_of(self, query: Node) -> dict[int, int]:
        """Return the number of the tenant's column of each distributed table of a query, by the table's place in it."""
        return {
            place: self.distributed[table.number("relid")]
            for place, table in enumerate(_tables(query), 1)
            if table.number("relid") in self.distributed
        }

    def _reads_distributed(self, table: Node) -> bool:
        return any(node.number("relid") in self.distributed for node in table.walk())

    def _is_mutable(self, node: Node) -> bool:
        if node.type in _CALLED:
            return node.number(_CALLED[node.type]) in self.mutable_functions
        if node.type == "COERCEVIAIO":
            argument = next(node.below("arg"))
            kind = next((argument.number(name) for name in _TYPES if name in argument.fields), 0)
            return node.number("resulttype") in self.mutable_inputs or kind in self.mutable_outputs
        return node.type in {"SQLVALUEFUNCTION", "NEXTVALUEEXPR"}


def _own_nodes(values: list[Any]) -> Iterator[Node]:
    """Yield the nodes that are in no query within these values."""
    for value in values:
        if isinstance(value, list):
            yield from _own_nodes(value)
        elif isinstance(value, Node) and value.type != "QUERY":
            yield value
            yield from _own_nodes(list(value.fields.values()))


def _tables(query: Node) -> list[Node]:
    return [table for table in _own_nodes(query.fields["rtable"]) if table.type == "RANGETBLENTRY"]


def _names_tenant(conditions: list[Node], table: int, column: int) -> bool:
    """Return whether the tenant's column of a table is compared with a parameter of the statement."""
    return any(
        {argument.type for argument in condition.fields["args"][0]} == {"VAR", "PARAM"}
        and any(
            (one.number("varno"), one.number("varattno"), one.number("varlevelsup")) == (table, column, 0)
            for one in condition.below("args")
        )
        for condition in conditions
        if condition.type == "OPEXPR"
    )


def _compares_rows(query: Node) -> bool:
    """Return whether an UPDATE or DELETE compares several columns with a subquery's."""
    return query.number("commandType") != _INSERT and any(
        node.type == "SUBLINK"
        and node.number("subLinkType") in {_ANY, _ALL}
        and len({one.number("paramid") for one in node.below("testexpr") if _is_subquery_column(one)}) > 1
        for node in query.walk()
    )


def _is_parameter_first(node: Node) -> bool:
    """Return whether a node is COALESCE with a parameter of the statement before what it stands for."""
    if node.type != "COALESCEEXPR":
        return False
    (arguments,) = node.fields["args"]
    first: Node = arguments[0]
    return first.type == "PARAM" and first.number("paramkind") == _EXTERNAL_PARAMETER


def _renames_union(node: Node) -> bool:
    """Return whether a WITH gives the columns of a UNION other names than the first branch has."""
    if node.type != "COMMONTABLEEXPR":
        return False
    (query,) = node.fields["ctequery"]
    names = [target.fields["resname"][0] for target in query.fields["targetList"][0]]
    # Printed with quotes.
    (aliases,) = node.fields["aliascolnames"]
    is_union = query.fields["setOperations"] != ["<>"]
    return is_union and isinstance(aliases, list) and [alias.strip('"') for alias in aliases] != names


def _is_subquery_column(node: Node) -> bool:
    return node.type == "PARAM" and node.number("paramkind") == _SUBLINK_PARAMETER


def _has_subquery(query: Node) -> bool:
    """Return whether an INSERT has a subquery where a value is."""
    if query.number("commandType") != _INSERT:
        return False
    values = [
        node for table in query.below("rtable") if table.type == "RANGETBLENTRY" for node in table.below("values_lists")
    ]
    return any(node.type == "SUBLINK" for node in (*query.below("targetList"), *query.below("onConflict"), *values))


def _reads_columns(node: Node) -> bool:
    return any(one.type == "VAR" for one in node.walk())


async def transaction_defaults(connection: Connection) -> list[str]:
    """Return the columns whose default is an id of a transaction."""
    return [row["name"] for row in await connection.fetch(_COLUMN_DEFAULTS)]


async def updating_keys(connection: Connection) -> list[str]:
    """Return the foreign keys with an action ON UPDATE."""
    return [row["name"] for row in await connection.fetch(_UPDATING_KEYS)]


async def unwritable_keys(connection: Connection, copied: list[str]) -> list[str]:
    """Return the roles that may write a copied table and may not write one that its foreign keys name."""
    return [row["name"] for row in await connection.fetch(_UNWRITABLE_KEYS, copied)]


async def partial_inserts(connection: Connection, tables: list[str]) -> list[str]:
    """Return the roles that may insert into some columns of a table, and not into all."""
    return [row["name"] for row in await connection.fetch(_PARTIAL_INSERTS, tables)]


async def generic_plans(connection: Connection) -> list[str]:
    """Return the functions whose statements are planned once for all values."""
    return [row["name"] for row in await connection.fetch(_GENERIC_PLANS)]


async def function_trees(connection: Connection) -> list[tuple[str, Node]]:
    """Run every function of ours, and roll back; return the statements that it ran, each with its name.

    A function that refuses what it gets has run those before.
    """
    found: list[tuple[str, Node]] = []
    for row in await connection.fetch(_CALLS):
        async with printed_trees(connection) as trees:
            transaction = connection.transaction()
            await transaction.start()
            with suppress(asyncpg.PostgresError):
                await connection.execute(row["call"])
            await transaction.rollback()
        found += [(row["name"], tree) for tree in trees]
    return found


async def copies_of_numbering_roles(connection: Connection, copied: list[str]) -> list[str]:
    """Return the copied tables that a role may write that also numbers rows by transaction."""
    return [row["name"] for row in await connection.fetch(_COPIES_OF_NUMBERING_ROLES, copied)]


def lines(broken: dict[str, list[str]]) -> Iterator[str]:
    """Yield a line for each statement that breaks a rule."""
    for name, rules in broken.items():
        yield from (f"{name}: {rule}" for rule in rules)
