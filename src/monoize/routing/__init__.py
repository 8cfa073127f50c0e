"""Who answers: the catalog of providers and the choice among them."""
