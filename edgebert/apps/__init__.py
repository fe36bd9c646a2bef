"""What an app without Python needs of a bundle, as plain files and sample code."""
