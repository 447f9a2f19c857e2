"""A request for every RPC of the cluster that names one of each thing of a tenant."""

from __future__ import annotations

import uuid

import fix_recipes_archives
import fix_recipes_auth
import fix_recipes_blocks
import fix_recipes_contexts
import fix_recipes_curation
import fix_recipes_erasing
import fix_recipes_links
import fix_recipes_models
import fix_recipes_session_archives
import fix_recipes_sessions
import fix_recipes_snapshots
import fix_recipes_spaces
import fix_recipes_states
import fix_recipes_streams
import fix_recipes_types
import fix_recipes_webhooks
from fix_recipe import RECIPES, mask, service, tenant_id
from fix_world import World
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import jobs_pb2, limits_pb2, members_pb2, subjects_pb2, tenancy_pb2

__all__ = [
    "RECIPES",
    "fix_recipes_archives",
    "fix_recipes_auth",
    "fix_recipes_blocks",
    "fix_recipes_contexts",
    "fix_recipes_curation",
    "fix_recipes_erasing",
    "fix_recipes_links",
    "fix_recipes_models",
    "fix_recipes_session_archives",
    "fix_recipes_sessions",
    "fix_recipes_snapshots",
    "fix_recipes_spaces",
    "fix_recipes_states",
    "fix_recipes_streams",
    "fix_recipes_types",
    "fix_recipes_webhooks",
    "request_for",
]

_tenancy = service("skein.tenancy.v1.TenancyService", tenancy_pb2)
_people = service("skein.tenancy.v1.TenancyService", members_pb2)
_subjects = service("skein.tenancy.v1.TenancyService", subjects_pb2)
_limits = service("skein.tenancy.v1.TenancyService", limits_pb2)
_jobs = service("skein.tenancy.v1.TenancyService", jobs_pb2)
_sessions = service("skein.session.v1.SessionService", session_pb2)
_memory_rpcs = service("skein.memory.v1.MemoryService", memory_pb2)
_links = service("skein.memory.v1.LinkService", memory_pb2)
_recall = service("skein.recall.v1.RecallService", recall_pb2)
_index = service("skein.recall.v1.RecallInternalService", recall_pb2)
_gateway = service("skein.gateway.v1.GatewayService", gateway_pb2)


def _fill_tenancy() -> None:
    _tenancy(
        "CreateOrganization",
        build=lambda _t, w: {"organization": tenancy_pb2.Organization(display_name=w.text("org "))},
    )
    _tenancy("GetOrganization", "organization_id")
    _tenancy("ListOrganizations")
    _tenancy(
        "UpdateOrganization",
        "organization_id",
        build=lambda t, _w: {
            "organization": tenancy_pb2.Organization(**t, display_name="renamed"),
            "update_mask": mask("display_name"),
        },
    )
    _tenancy("DeleteOrganization", "organization_id")
    _tenancy("CreateTenant", build=lambda _t, w: {"tenant": tenancy_pb2.Tenant(display_name=w.text("new "))})
    _tenancy("GetTenant", build=tenant_id)
    _tenancy("ListTenants")
    _tenancy(
        "UpdateTenant",
        build=lambda t, w: {
            "tenant": tenancy_pb2.Tenant(**tenant_id(t, w), display_name="renamed"),
            "update_mask": mask("display_name"),
        },
    )
    _tenancy("DeleteTenant", build=tenant_id)
    _people("UndeleteTenant", "deleted", build=tenant_id)
    _people("GetDeletion", "deleted", build=tenant_id)
    _people("ListDeletions")
    _people("TransferOwnership", "member_id", build=lambda t, _w: {"account_id": t["member_id"]})
    _people(
        "AddMember",
        "stranger",
        build=lambda t, _w: {"account_id": t["stranger"].account_id, "role": members_pb2.ROLE_VIEWER},
    )
    _people("GetMember", "member_id", build=lambda t, _w: {"account_id": t["member_id"]})
    _people("ListMembers", "member_id", build=lambda _t, _w: {})
    _people(
        "UpdateMember",
        "member_id",
        build=lambda t, _w: {"account_id": t["member_id"], "role": members_pb2.ROLE_VIEWER},
    )
    _people("RemoveMember", "member_id", build=lambda t, _w: {"account_id": t["member_id"]})
    _people("LeaveTenant", "co_owner", build=lambda _t, _w: {})
    _people(
        "CreateInvitation",
        build=lambda _t, _w: {"email": f"{uuid.uuid4().hex}@example.org", "role": members_pb2.ROLE_VIEWER},
    )
    _people("ListInvitations", "invitation", build=lambda _t, _w: {})
    _people(
        "RevokeInvitation",
        "invitation",
        build=lambda t, _w: {"invitation_id": t["invitation"].invitation.invitation_id},
    )
    # The invitation is for another account.
    _people(
        "AcceptInvitation",
        "invitation",
        build=lambda t, _w: {"token": t["invitation"].token},
        own="INVITATION_NOT_FOUND",
    )


def _fill_things() -> None:
    _subjects("CreateSubject", build=lambda _t, w: {"subject": subjects_pb2.Subject(display_name=w.text())})
    _subjects("GetSubject", "subject_id")
    language = subjects_pb2.PropertyMatch(path="preferences.language", value=Value(string_value="de"))
    _subjects("ListSubjects", "subject_id", build=lambda _t, _w: {"properties": [language]})
    _subjects(
        "UpdateSubject",
        "subject_id",
        build=lambda t, _w: {
            "subject": subjects_pb2.Subject(**t, display_name="renamed"),
            "update_mask": mask("display_name"),
        },
    )
    _subjects("DeleteSubject", "subject_id")
    _subjects("UndeleteSubject", "subject_id")
    _subjects("PurgeSubject", "subject_id")
    _subjects("CreateTool", build=lambda _t, w: {"tool": subjects_pb2.Tool(name=w.text("new tool "))})
    _subjects("GetTool", "tool_id")
    _subjects("ListTools", "tool_id", build=lambda _t, _w: {})
    _subjects(
        "UpdateTool",
        "tool_id",
        build=lambda t, _w: {
            "tool": subjects_pb2.Tool(**t, description="renamed"),
            "update_mask": mask("description"),
        },
    )
    _subjects("DeleteTool", "tool_id")
    _subjects("UndeleteTool", "tool_id")
    _subjects("PurgeTool", "tool_id")
    _subjects("AttachTool", "agent_id", "tool_id")
    _subjects("DetachTool", "agent_id", "tool_id")
    _subjects("GetPolicy")
    _subjects(
        "UpdatePolicy",
        build=lambda _t, _w: {"policy": subjects_pb2.Policy(decay_days=31), "update_mask": mask("decay_days")},
    )
    _jobs("GetJobs")
    for method in ("PauseJob", "ResumeJob", "LimitJob"):
        _jobs(method, build=lambda _t, _w: {"kind": jobs_pb2.JOB_KIND_DECAY})
    _jobs("AdvanceImport", build=lambda _t, _w: {"requested_count": 1})
    _limits("GetQuota")
    _limits("GetUsage")
    _limits(
        "UpdateQuota",
        "organization_id",
        build=lambda t, _w: {**t, "quota": limits_pb2.Quota(members=10), "update_mask": mask("members")},
    )
    _tenancy("CreateAgent", build=lambda _t, w: {"agent": tenancy_pb2.Agent(display_name=w.text())})
    _tenancy("GetAgent", "agent_id")
    _tenancy("ListAgents", "agent_id", build=lambda _t, _w: {})
    _tenancy(
        "UpdateAgent",
        "agent_id",
        build=lambda t, _w: {
            "agent": tenancy_pb2.Agent(**t, display_name="renamed"),
            "update_mask": mask("display_name"),
        },
    )
    _tenancy("DeleteAgent", "agent_id")
    _tenancy("UndeleteAgent", "agent_id")
    _tenancy("PurgeAgent", "agent_id")


def _fill_internal() -> None:
    internal = service("skein.tenancy.v1.TenancyInternalService", members_pb2)
    internal("GetMembership", build=tenant_id)
    internal("AcquireRateLimit", build=lambda _t, _w: {"tenant_tokens": 1}, request=limits_pb2.AcquireRateLimitRequest)
    internal(
        "CheckInvitation",
        "invitation",
        build=lambda t, _w: {"token": t["invitation"].token, "email": t["invitation"].invitation.email},
    )
    internal("RemoveAccount", "stranger", build=lambda t, _w: {"account_id": t["stranger"].account_id})
    internal("ListDueTenants", build=lambda _t, _w: {"work": members_pb2.DUE_WORK_EXPIRY})
    internal("ListDueDeletions")
    internal("RecordDeletion", "due", build=lambda t, w: {**tenant_id(t, w), "stage": "session"})
    internal("PurgeTenant", "deleted", build=lambda _t, _w: {})
    internal("CollectUsage", request=limits_pb2.CollectUsageRequest)
    internal("DeleteExpired")


def _fill_content() -> None:
    _sessions("CreateSession", build=lambda _t, w: {"session": session_pb2.Session(title=w.text())})
    _sessions("GetSession", "session_id")
    _sessions("ListSessions", "session_id", build=lambda _t, _w: {})
    _sessions(
        "UpdateSession",
        "session_id",
        build=lambda t, _w: {
            "session": session_pb2.Session(**t, title="renamed"),
            "update_mask": mask("title"),
        },
    )
    _sessions("EndSession", "session_id")
    _sessions("DeleteSession", "session_id")
    _sessions(
        "AppendMessages",
        "session_id",
        build=lambda t, w: {
            **t,
            "messages": [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=w.text())],
        },
    )
    _sessions("GetMessage", "message_id")
    _sessions("ListMessages", "session_id", "message_id", build=lambda t, _w: {"session_id": t["session_id"]})
    _sessions("SearchMessages", "message_id", build=lambda _t, _w: {"query": "kettle"})
    _sessions("DeleteMessage", "message_id")
    _sessions("UndeleteMessage", "message_id")
    _memory_rpcs("CreateMemory", build=lambda _t, w: {"memory": memory_pb2.Memory(content=w.text())})
    _memory_rpcs("BatchCreateMemories", build=lambda _t, w: {"memories": [memory_pb2.Memory(content=w.text())]})
    _memory_rpcs("GetMemory", "memory_id")
    _memory_rpcs("BatchGetMemories", "memory_id", build=lambda t, _w: {"memory_ids": [t["memory_id"]]})
    _memory_rpcs("ListMemories", "memory_id", build=lambda _t, _w: {"show_archived": True, "show_deleted": True})
    _memory_rpcs(
        "UpdateMemory",
        "memory_id",
        build=lambda t, _w: {
            "memory": memory_pb2.Memory(**t, content="changed"),
            "update_mask": mask("content"),
        },
    )
    _memory_rpcs("DeleteMemory", "memory_id")
    _memory_rpcs("UndeleteMemory", "deleted_memory_id", build=lambda t, _w: {"memory_id": t["deleted_memory_id"]})
    _links(
        "CreateLink",
        "memory_id",
        "other_memory_id",
        build=lambda t, _w: {
            "link": memory_pb2.Link(
                from_memory_id=t["memory_id"], to_memory_id=t["other_memory_id"], relation="supports"
            )
        },
    )
    _links("DeleteLink", "link_id")
    _links("ListLinks", "link_id", "memory_id", build=lambda t, _w: {"memory_id": t["memory_id"]})
    for name, module in (("session", session_pb2), ("memory", memory_pb2)):
        internal = service(f"skein.{name}.v1.{name.title()}InternalService", module)
        internal("EnsurePartitions")
        internal("ListDueTenants", build=lambda _t, _w, module=module: {"work": module.DUE_WORK_EXPIRY})
        internal("DeleteExpired")
        internal("PurgeTenant", "deleted", build=lambda _t, _w: {})
    facts = service("skein.memory.v1.MemoryInternalService", memory_pb2)
    before_time = Timestamp(seconds=1)
    facts("RetractFacts", "message_id", build=lambda t, _w: {**t, "before_time": before_time})
    facts(
        "KeepRefusedFacts",
        "message_id",
        build=lambda t, w: {
            "facts": [
                memory_pb2.RefusedFact(
                    memory=memory_pb2.Memory(
                        content=w.text(),
                        derived_from=[
                            memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=t["message_id"])
                        ],
                    ),
                    reason="question",
                )
            ]
        },
    )
    facts("RevealModelKey", own="SECRET_NOT_FOUND")
    facts("PurgeFacts", "message_id", build=lambda t, _w: {"message_ids": [t["message_id"]]})
    _sessions("StartExtraction", own="EXTRACTION_OFF")
    _sessions("CancelExtraction")
    due = service("skein.session.v1.SessionInternalService", session_pb2)
    due("LeaseExtraction")
    due(
        "CompleteExtraction",
        "message_id",
        build=lambda t, _w: {"messages": [session_pb2.DueMessage(**t, change_time=before_time)]},
    )
    _recall("Recall", "memory_id", "message_id", build=lambda _t, _w: {"query": "the red kettle"})
    _recall("FindSimilar", "memory_id", "message_id", build=lambda t, _w: {"item_id": t["memory_id"]})
    _recall("EmbedText", build=lambda _t, w: {"texts": [w.text()]})
    _recall("ListEmbeddingModels")
    _recall(
        "RegisterEmbeddingModel",
        build=lambda _t, _w: {
            "embedding_model": recall_pb2.EmbeddingModel(
                model=f"matrix-{uuid.uuid4().hex[:8]}", provider="caller", dimensions=8
            )
        },
    )
    _index(
        "IndexItems",
        "memory_id",
        build=lambda t, _w: {"items": [recall_pb2.IndexItem(item_id=t["memory_id"], revision=1, text="kettle")]},
    )
    _index("IndexBacklog")
    _index("PurgeTenant", "deleted", build=lambda _t, _w: {})
    _gateway(
        "Remember",
        "session_id",
        build=lambda t, w: {
            **t,
            "messages": [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=w.text())],
        },
    )
    _gateway("GetClusterStatus")


_fill_tenancy()
_fill_things()
_fill_internal()
_fill_content()


async def request_for(path: str, world: World) -> Message:
    """Return a request for this RPC that names things of this world's tenant."""
    recipe = RECIPES[path]
    things = {name: await world.thing(name) for name in recipe.needs}
    return recipe.build(things, world)
