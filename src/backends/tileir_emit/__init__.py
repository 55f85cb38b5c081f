"""Parts that emitters of back ends share: lanes taken apart, bases for languages like C, fragments of threads."""
