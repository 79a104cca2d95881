"""Answer questions by searching documents, over as many searches as it takes."""
