-- What was ordered in each country, computed anew from the table in each run.
CREATE MATERIALIZED VIEW by_country AS
SELECT country, count(*) AS orders, sum(amount) AS amount
FROM orders
GROUP BY country
