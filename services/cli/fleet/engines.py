"""``gitopsctl engines``: the engine instances that tenants are placed on, and the tenants on them.

The commands of the group are in the other modules of this folder. This module gives them their names.
"""

from __future__ import annotations

import typer

from services.cli.fleet import (
    engine_assignments,
    engine_instances,
    engine_lifecycle,
    engine_moves,
    engine_orders,
    engine_placement,
    engine_pools,
    engine_rebalance,
    engine_remedies,
    engine_rollouts,
)

app = typer.Typer(help="Engine instances.", no_args_is_help=True)

app.command("move")(engine_moves.move)
app.command("cancel-move")(engine_moves.cancel_move)
app.command("moves")(engine_moves.list_moves)
app.command("rebalance")(engine_rebalance.rebalance)
app.command("remedies")(engine_remedies.list_remedies)
app.command("assign")(engine_assignments.assign)
app.command("unassign")(engine_assignments.unassign)
app.command("dedicate")(engine_assignments.dedicate)
app.command("pin")(engine_assignments.pin)
app.command("unpin")(engine_assignments.unpin)
app.command("assignments")(engine_assignments.list_assignments)
app.command("placement")(engine_placement.placement)
app.command("orders")(engine_orders.list_orders)
app.command("list")(engine_instances.list_instances)
app.command("apply")(engine_lifecycle.apply)
app.command("show")(engine_instances.show)
app.command("add")(engine_lifecycle.add)
app.command("wait")(engine_lifecycle.wait)
app.command("drain")(engine_lifecycle.drain)
app.command("undrain")(engine_lifecycle.undrain)
app.command("retire")(engine_lifecycle.retire)
app.add_typer(engine_rollouts.app, name="rollout")
app.add_typer(engine_pools.app, name="pool")
