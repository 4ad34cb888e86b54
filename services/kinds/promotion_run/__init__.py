"""PromotionRun: brings a snapshot to an environment, or from environment to environment."""
