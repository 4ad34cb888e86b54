"""Kafka for the services: topics, consumer and offset tracker, latest messages, producer, dead letters."""

from services.common.kafka.brokers import (
    Brokers,
    check_login,
    client_properties,
    count_partitions,
    described_partitions,
    existing_partitions,
    kafka_at,
    topic_settings,
)
from services.common.kafka.consumed_message import ConsumedMessage
from services.common.kafka.consumer import SESSION_SECONDS, Consumer, Membership
from services.common.kafka.dead_letter_limit import DeadLetterLimit, TooManyDeadLetters
from services.common.kafka.dead_letter_queue import DeadLetterQueue
from services.common.kafka.group_session import GroupSession
from services.common.kafka.latest_messages import LatestMessages
from services.common.kafka.log_extents import LogExtent, read_extents
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition, TrackedOffset
from services.common.kafka.partition_reader import PartitionReader
from services.common.kafka.publisher import Publisher
from services.common.kafka.topic_follower import NewsReader, TopicFollower
from services.common.kafka.topic_order import TopicOrder
from services.common.kafka.topics import (
    COMMANDS,
    DEAD_LETTERS,
    DEFAULT_ENGINE_CLUSTER,
    ENGINE,
    ENGINE_CLUSTER_NAME,
    FLEET,
    FLEET_ORDERS,
    OBJECTS,
    OBSERVATIONS,
    PLACEMENT,
    PROVISIONING,
    TENANT_CLUSTERS,
    WORKSPACE,
    WORKSPACE_NAME,
    Rights,
    Topic,
    engine_topic,
    is_engine_topic,
    is_observations_topic,
    load_acls,
    load_topics,
    log_of,
    objects_topic,
    observations_topic,
    reporting_cluster,
    tenant_key,
    workspace_topic,
)
from services.common.kafka.whole_topic_reader import WholeTopicReader

__all__ = [
    "COMMANDS",
    "DEAD_LETTERS",
    "DEFAULT_ENGINE_CLUSTER",
    "ENGINE",
    "ENGINE_CLUSTER_NAME",
    "FLEET",
    "FLEET_ORDERS",
    "OBJECTS",
    "OBSERVATIONS",
    "PLACEMENT",
    "PROVISIONING",
    "SESSION_SECONDS",
    "TENANT_CLUSTERS",
    "WORKSPACE",
    "WORKSPACE_NAME",
    "Brokers",
    "ConsumedMessage",
    "Consumer",
    "DeadLetterLimit",
    "DeadLetterQueue",
    "GroupSession",
    "LatestMessages",
    "LogExtent",
    "Membership",
    "NewsReader",
    "OffsetTracker",
    "PartitionReader",
    "Publisher",
    "Rights",
    "TooManyDeadLetters",
    "Topic",
    "TopicFollower",
    "TopicOrder",
    "TopicPartition",
    "TrackedOffset",
    "WholeTopicReader",
    "check_login",
    "client_properties",
    "count_partitions",
    "described_partitions",
    "engine_topic",
    "existing_partitions",
    "is_engine_topic",
    "is_observations_topic",
    "kafka_at",
    "load_acls",
    "load_topics",
    "log_of",
    "objects_topic",
    "observations_topic",
    "read_extents",
    "reporting_cluster",
    "tenant_key",
    "topic_settings",
    "workspace_topic",
]
