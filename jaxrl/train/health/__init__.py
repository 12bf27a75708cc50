"""What can go wrong while training, noticed and told: NaN, slowness, busy machines, stragglers."""
