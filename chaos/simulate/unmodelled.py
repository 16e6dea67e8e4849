"""What no simulated figure has in it. It stands at every figure: pages, reports, what commands print, JSON."""

NOT_MODELLED = (
    "Not modelled: queues and losses; on Ethernet (RoCE), collisions of ECMP, pauses of PFC and incast come on top."
)
