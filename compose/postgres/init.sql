-- Roles and databases, run by psql as superuser: by the local stack at every start, by the container once.
-- Safe to run again. Passwords come from the environment, so that this file holds none.
\set ON_ERROR_STOP on
\getenv owner_password GITOPS_OWNER_PASSWORD
\getenv planner_password GITOPS_PLANNER_PASSWORD
\getenv replication_password GITOPS_REPLICATION_PASSWORD

-- gitops_owner: migrations. gitops_planner: the planner's reads and writes. gitops_replication: Debezium, which
-- reads what its publication holds and nothing else. Grants on tables are part of the migrations.
SELECT format('CREATE ROLE %I', name)
  FROM unnest(ARRAY['gitops_owner', 'gitops_planner', 'gitops_replication']) AS wanted(name)
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec

ALTER ROLE gitops_owner LOGIN PASSWORD :'owner_password';
ALTER ROLE gitops_planner LOGIN PASSWORD :'planner_password';
ALTER ROLE gitops_replication LOGIN REPLICATION PASSWORD :'replication_password';

SELECT 'CREATE DATABASE gitops OWNER gitops_owner'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'gitops') \gexec

REVOKE ALL ON DATABASE gitops FROM PUBLIC;
GRANT CONNECT ON DATABASE gitops TO gitops_planner, gitops_replication;
