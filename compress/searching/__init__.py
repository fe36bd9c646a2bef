"""How a student is found: shapes, what they cost, short trainings, long ones, the choice."""
