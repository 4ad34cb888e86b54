"""Conditions of a GitOpsDeploymentManagedEnvironment."""

from __future__ import annotations

from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from services.kinds.shared.catalogue import (
    PARKED,
    QUOTA_EXCEEDED,
    RESOLVED,
    THROTTLING,
    UNKNOWN_ERROR,
    Entry,
    Reason,
)

CONNECTION = "ConnectionInitializationSucceeded"

_KUBECONFIG = "Correct the kubeconfig in the Secret; the change is seen at once."


def _not_connected(status: str, reason: str, message: str, meaning: str, remedy: str) -> Entry:
    return Entry(CONNECTION, status, reason, message, meaning, remedy)


CONNECTED = Entry(CONNECTION, "True", "Succeeded", "", "The cluster can be reached with these credentials.")
CHECKING = _not_connected(
    "Unknown",
    Reason.CHECKING,
    "the connection is being checked",
    "The environment or its Secret is new or has changed, and has not been tried yet. Deployments to it wait.",
    "Wait some seconds. If it stays, ask your operators.",
)
AWAITING_SECRET = _not_connected(
    "Unknown",
    Reason.CHECKING,
    "waiting for the content of Secret '{secret}'",
    "The Secret was seen; what is in it is on its way.",
    "Wait some seconds. If it stays, change the Secret or ask your operators.",
)
INVALID_SPEC = _not_connected(
    "Unknown",
    Reason.INVALID_SPEC,
    "{detail}",
    "A field of the spec has a wrong type or is too long. New objects with such a field are refused.",
    "Correct the field.",
)
BEYOND_QUOTA = _not_connected(
    "Unknown",
    Reason.QUOTA_EXCEEDED,
    "quota exceeded: {detail}",
    "Your namespace has too many environments or Secrets, they are too large, or list too many namespaces together; "
    "ErrorOccurred says so too.",
    "Delete what you do not need; this environment is looked at again when there is room. Or ask for more.",
)
SECRET_NOT_FOUND = _not_connected(
    "False",
    Reason.SECRET_NOT_FOUND,
    "secret '{secret}' referenced by credentialsSecret was not found",
    "There is no Secret of this name and type in this namespace, or its name is empty. Deleting it takes the "
    "credentials back: they are removed from the engine, within 20 seconds if deployments go there, nothing more is "
    "deployed there, and what was deployed stays.",
    f"Create the Secret with type {ENVIRONMENT_SECRET}, or correct spec.credentialsSecret; either is seen at once.",
)
INVALID_SECRET_TYPE = _not_connected(
    "False",
    "InvalidSecretType",
    "invalid secret type: {type}",
    "There is a Secret of this name, of another type. One that was made after this environment is noticed within a "
    "minute; until then it says SecretNotFound.",
    f"Create it anew with type {ENVIRONMENT_SECRET}: a Secret's type cannot be changed.",
)
UNSUPPORTED_API_URL = _not_connected(
    "Unknown",
    "UnsupportedAPIURL",
    "the API URL must not have ? or & values",
    "spec.apiURL carries a query.",
    "Remove it; write the URL as the kubeconfig's clusters[].cluster.server has it.",
)
ADDRESS_REFUSED = _not_connected(
    "Unknown",
    "UnsupportedAPIURL",
    "{detail}",
    "spec.apiURL leads to an address that environments may not use (loopback, link-local, cluster-internal, metadata), "
    "or names a host by one part only.",
    "Use the full name, and the public or routed address of the cluster, or ask your operators to allow this one.",
)
INVALID_NAMESPACE_LIST = _not_connected(
    "Unknown",
    "InvalidNamespaceList",
    "user specified an invalid namespace: ManagedEnvironment contains an invalid namespace in namespaces list: "
    "{namespace}",
    "An entry of spec.namespaces cannot be a namespace's name (lower-case letters, digits, '-'; at most 63).",
    "Correct the entry.",
)
MISSING_KUBECONFIG = _not_connected(
    "False",
    "MissingKubeConfigField",
    "missing kubeconfig field in Secret",
    "The Secret has no key kubeconfig.",
    "Put the kubeconfig under the key kubeconfig.",
)
UNPARSABLE_KUBECONFIG = _not_connected(
    "False",
    "UnableToParseKubeconfigData",
    "unable to parse kubeconfig data: {detail}",
    "The kubeconfig is no kubeconfig, its user has no token, or it carries what is not allowed: client certificates, "
    "exec, auth-provider, paths of files, a proxy. Or it could not be opened on its way: the message says so then, and "
    "your operators mend it.",
    _KUBECONFIG + " It needs a service account's token.",
)
NO_CONTEXT = _not_connected(
    "False",
    "UnableToLocateContext",
    "{detail}",
    "No cluster of the kubeconfig has spec.apiURL as its server, or no context belongs to that cluster.",
    "Write spec.apiURL exactly as clusters[].cluster.server has it, and add a context.",
)
NO_REST_CONFIG = _not_connected(
    "False",
    "UnableToRetrieveRestConfig",
    "unable to retrieve restConfig from managed environment secret: {detail}",
    "The kubeconfig's cluster, context and user do not fit together.",
    _KUBECONFIG,
)
NO_CLIENT = _not_connected(
    "False",
    "UnableToCreateClient",
    "unable to create k8s client from restConfig from managed environment secret: {detail}",
    "The cluster does not answer, for example because there is no host of that name or the address is not allowed; or "
    "its certificate is not for this host.",
    "Check that the URL can be reached from where deployments are run; it is tried again every ten minutes.",
)
NO_SERVICE_ACCOUNT = _not_connected(
    "False",
    "UnableToInstallServiceAccount",
    "{detail}",
    "spec.createNewServiceAccount is true, and the kubeconfig's identity may not create what is needed.",
    "Use a kubeconfig that may create ServiceAccounts and roles, or set createNewServiceAccount to false.",
)
CREDENTIALS_REFUSED = _not_connected(
    "Unknown",
    "UnableToValidateClusterCredentials",
    "Unable to validate the credentials provided in the ManagedEnvironment Secret. Verify the API URL, and service "
    "account token are correct.",
    "The cluster refuses the token, or it does not answer as a Kubernetes API server does.",
    "Put a token that is still valid in the kubeconfig; check the URL.",
)
CREDENTIALS_FORBIDDEN = _not_connected(
    "Unknown",
    "UnableToValidateClusterCredentials",
    "Provided service account does not have permission to access resources in the cluster. Verify that the service "
    "account has the correct Role and RoleBinding.",
    "The token is good, but may not read the first entry of spec.namespaces, or list namespaces.",
    "Grant the service account what deployments need, or name the namespaces that it may use in spec.namespaces.",
)
UNKNOWN_AUTHORITY = _not_connected(
    "Unknown",
    "UnableToValidateClusterCredentials",
    "Certificate signed by unknown authority. Note that the '.spec.allowInsecureSkipTLSVerify' field can be used to "
    "ignore this error.",
    "The cluster's certificate is not signed by an authority that is known or that the kubeconfig names.",
    "Put certificate-authority-data in the kubeconfig. Only for tests: allowInsecureSkipTLSVerify: true.",
)
USE_REFUSED = _not_connected(
    "False",
    Reason.SECRET_USE_REFUSED,
    "{detail}",
    "The Secret was sealed for another apiURL, or for other values of allowInsecureSkipTLSVerify, "
    "createNewServiceAccount, namespaces or clusterResources, than it shall be used with. It was sent nowhere. Either "
    "the two are not both known yet where deployments are run, or somebody has changed the values between here and "
    "there.",
    "Wait some seconds. If it stays, ask your operators: they have to find out who changed them.",
)
NOT_CREATED = _not_connected(
    "Unknown",
    "UnableToCreateClusterCredentials",
    UNKNOWN_ERROR.message,
    "Something failed that you cannot mend.",
    UNKNOWN_ERROR.remedy,
)

ENTRIES = (
    CONNECTED,
    CHECKING,
    AWAITING_SECRET,
    INVALID_SPEC,
    BEYOND_QUOTA,
    SECRET_NOT_FOUND,
    INVALID_SECRET_TYPE,
    UNSUPPORTED_API_URL,
    ADDRESS_REFUSED,
    INVALID_NAMESPACE_LIST,
    MISSING_KUBECONFIG,
    UNPARSABLE_KUBECONFIG,
    NO_CONTEXT,
    NO_REST_CONFIG,
    NO_CLIENT,
    NO_SERVICE_ACCOUNT,
    CREDENTIALS_REFUSED,
    CREDENTIALS_FORBIDDEN,
    UNKNOWN_AUTHORITY,
    USE_REFUSED,
    NOT_CREATED,
    QUOTA_EXCEEDED,
    RESOLVED,
    *PARKED,
    *THROTTLING,
)
