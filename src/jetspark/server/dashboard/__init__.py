"""The dashboard: one page on the monitoring port, live, read-only unless the operator allows more.

`routes` says which addresses exist and who may use them, `logins` who is asking, `sampler` remembers the last hour,
`documents`, `browse` and `pipelines` say what is shown, `changes` performs what a form asks for. `static/` is the page
itself: plain HTML, CSS and modules, as the browser gets them.
"""
