"""What several faults are made of: what a NIC had and how it comes back, ports, queues, nft's words, a helper."""
