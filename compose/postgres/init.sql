-- Roles and databases, run by psql as superuser: by the local stack at every start, by the container once.
-- Safe to run again. Passwords come from the environment, so that this file holds none.
\set ON_ERROR_STOP on
\getenv owner_password GITOPS_OWNER_PASSWORD
\getenv planner_password GITOPS_PLANNER_PASSWORD
\getenv replication_password GITOPS_REPLICATION_PASSWORD
\getenv backup_password GITOPS_BACKUP_PASSWORD
\getenv reader_password GITOPS_READER_PASSWORD

-- gitops_owner: migrations. gitops_planner: the planner's reads and writes. gitops_replication: Debezium, which
-- reads what its publication holds and nothing else. gitops_backup: gitopsctl backup, which reads everything and
-- writes nothing. gitops_reader: gitopsctl engines and engine-clusters, which read what operators are shown. Grants on
-- tables are part of the migrations.
SELECT format('CREATE ROLE %I', name)
  FROM unnest(ARRAY['gitops_owner', 'gitops_planner', 'gitops_replication', 'gitops_backup', 'gitops_reader'])
    AS wanted(name)
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec

ALTER ROLE gitops_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    PASSWORD :'owner_password' CONNECTION LIMIT 10;
ALTER ROLE gitops_planner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    PASSWORD :'planner_password' CONNECTION LIMIT 40;
ALTER ROLE gitops_replication LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE REPLICATION NOBYPASSRLS
    PASSWORD :'replication_password' CONNECTION LIMIT 10;
ALTER ROLE gitops_backup LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    PASSWORD :'backup_password' CONNECTION LIMIT 2;
ALTER ROLE gitops_reader LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    PASSWORD :'reader_password' CONNECTION LIMIT 10;

-- A planner that hangs in the middle of a transaction would hold its locks, and vacuum, for ever. A batch takes
-- milliseconds. Debezium gets no limit: the snapshot of a large table is one statement.
ALTER ROLE gitops_planner SET statement_timeout = '60s';
ALTER ROLE gitops_planner SET lock_timeout = '30s';
ALTER ROLE gitops_planner SET idle_in_transaction_session_timeout = '60s';
-- Its statements carry tenants' rows: the server's log says what failed, and not the statement.
ALTER ROLE gitops_planner SET log_min_error_statement = 'panic';
-- A look that somebody has left open would hold back vacuum, too.
ALTER ROLE gitops_reader SET statement_timeout = '60s';
ALTER ROLE gitops_reader SET idle_in_transaction_session_timeout = '60s';

SELECT 'CREATE DATABASE gitops OWNER gitops_owner'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'gitops') \gexec

-- By default everybody may enter every database, and make temporary tables there.
REVOKE ALL ON DATABASE gitops, postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE gitops TO gitops_planner, gitops_replication, gitops_backup, gitops_reader;

-- By default everybody may make large objects, of any size and in any number, also who only reads.
\connect gitops
REVOKE EXECUTE ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea) FROM PUBLIC;
